"""Types of graph tensors: element type, logical shape, memory layout."""

import math
from dataclasses import dataclass, replace

import numpy as np

from daedal.common.errors import ModelError
from daedal.compiler.graph.layout import PLAIN, Layout, PlainLayout

__all__ = ["MAX_ELEMENTS", "MAX_RANK", "TensorType"]

MAX_RANK = 8
MAX_ELEMENTS = 1 << 28
"""Bound on one tensor: an untrusted model must not make us allocate without limit."""

_DTYPES = frozenset({"float32", "int8", "uint8", "int16", "int32", "int64", "bool"})


@dataclass(frozen=True)
class TensorType:
    """Element type, logical shape and layout of one tensor.

    Parameters
    ----------
    shape : logical shape; every extent is at least 1.
    dtype : numpy name of the element type.
    layout : how the elements lie in memory; `PLAIN` is row-major.
    """

    shape: tuple[int, ...]
    dtype: str
    layout: Layout = PLAIN

    def __post_init__(self) -> None:
        if self.dtype not in _DTYPES:
            raise ModelError(
                f"element types must be one of {', '.join(sorted(_DTYPES))}, not {self.dtype}; "
                "export the model with float32 or int8 tensors"
            )
        if len(self.shape) > MAX_RANK:
            raise ModelError(
                f"tensors must have at most {MAX_RANK} dimensions, not {len(self.shape)}; "
                "reshape the tensor in the model"
            )
        if any(extent < 1 for extent in self.shape):
            raise ModelError(
                f"every dimension must be at least 1, not {list(self.shape)}; "
                "remove the empty tensor from the model"
            )
        if math.prod(self.shape) > MAX_ELEMENTS:
            raise ModelError(
                f"a tensor must have at most {MAX_ELEMENTS} elements, not {list(self.shape)}; "
                "use smaller inputs"
            )

    @property
    def rank(self) -> int:
        """Number of logical dimensions."""
        return len(self.shape)

    @property
    def num_elements(self) -> int:
        """Number of logical elements, without the padding of the layout."""
        return math.prod(self.shape)

    @property
    def physical_shape(self) -> tuple[int, ...]:
        """Shape of the array that holds a value of this type."""
        return self.layout.physical_shape(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes a value of this type takes in memory, padding of the layout included."""
        return math.prod(self.physical_shape) * np.dtype(self.dtype).itemsize

    @property
    def is_plain(self) -> bool:
        """Whether the elements are row-major in the order of the logical shape."""
        return isinstance(self.layout, PlainLayout)

    def with_layout(self, layout: Layout) -> "TensorType":
        """The same logical tensor in another layout."""
        return replace(self, layout=layout)

    def __str__(self) -> str:
        extents = ",".join(str(extent) for extent in self.shape)
        suffix = "" if self.is_plain else f":{self.layout}"
        return f"{self.dtype}[{extents}]{suffix}"
