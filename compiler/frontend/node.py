"""One ONNX node as the importers see it: names, and attributes that must all be understood."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from daedal.common.errors import ModelError, UnsupportedError
from daedal.compiler.frontend.attributes import is_default
from daedal.compiler.graph.types import MAX_ELEMENTS

__all__ = ["OnnxNode", "element_type_name", "tensor_value", "widened"]

Array = npt.NDArray[Any]


class OnnxNode:
    """A node, with typed access to its attributes.

    Each getter marks its attribute as understood; `finish` refuses a node that has others, so an
    attribute that changes the meaning is never ignored.
    """

    def __init__(self, proto: onnx.NodeProto, opset: int) -> None:
        self.op_type = str(proto.op_type)
        self.opset = opset
        self._domain = str(proto.domain)
        self.inputs = tuple(str(name) for name in proto.input)
        self.outputs = tuple(str(name) for name in proto.output)
        self.name = str(proto.name) or (self.outputs[0] if self.outputs else "")
        self._attributes: dict[str, onnx.AttributeProto] = {
            str(item.name): item for item in proto.attribute
        }

    def input(self, index: int) -> str | None:
        """Name of an operand, or None if it is absent."""
        return (self.inputs[index] or None) if index < len(self.inputs) else None

    def refuse(self, rule: str, remedy: str) -> UnsupportedError:
        """The error for a node that is valid but not supported; the caller raises it."""
        return UnsupportedError(self._sentence(rule, remedy))

    def damaged(self, rule: str, remedy: str = "repair the model") -> ModelError:
        """The error for a node that is not valid ONNX; the caller raises it."""
        return ModelError(self._sentence(rule, remedy))

    def _sentence(self, rule: str, remedy: str) -> str:
        return f"{rule} (node {self.name!r}, operator {self.op_type}); {remedy}"

    def integer(self, name: str, default: int) -> int:
        """Attribute of type INT."""
        value = self._take(name, onnx.AttributeProto.INT)
        return default if value is None else int(value.i)

    def real(self, name: str, default: float) -> float:
        """Attribute of type FLOAT."""
        value = self._take(name, onnx.AttributeProto.FLOAT)
        return default if value is None else float(value.f)

    def text(self, name: str, default: str) -> str:
        """Attribute of type STRING."""
        value = self._take(name, onnx.AttributeProto.STRING)
        return default if value is None else bytes(value.s).decode("utf-8", "replace")

    def integers(self, name: str, default: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """Attribute of type INTS."""
        value = self._take(name, onnx.AttributeProto.INTS)
        return default if value is None else tuple(int(item) for item in value.ints)

    def reals(self, name: str) -> tuple[float, ...] | None:
        """Attribute of type FLOATS."""
        value = self._take(name, onnx.AttributeProto.FLOATS)
        return None if value is None else tuple(float(item) for item in value.floats)

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Attribute of type STRINGS."""
        value = self._take(name, onnx.AttributeProto.STRINGS)
        if value is None:
            return None
        return tuple(bytes(item).decode("utf-8", "replace") for item in value.strings)

    def tensor(self, name: str) -> Array | None:
        """Attribute of type TENSOR."""
        value = self._take(name, onnx.AttributeProto.TENSOR)
        return None if value is None else tensor_value(value.t)

    def expect(self, **defaults: int | float | str) -> None:
        """Refuse the node unless these attributes are absent or have these values."""
        for name, wanted in defaults.items():
            found: int | float | str
            if isinstance(wanted, str):
                found = self.text(name, wanted)
            elif isinstance(wanted, int):
                found = self.integer(name, wanted)
            else:
                found = self.real(name, wanted)
            if found != wanted:
                raise self.refuse(
                    f"attribute {name} must be {wanted!r}, not {found!r}",
                    "export the model without it",
                )

    def finish(self) -> None:
        """Refuse the node if it has an attribute that no getter asked for. One with its default
        value is as if it were absent."""
        for item in self._attributes.values():
            if not is_default(item, self.op_type, self.opset, self._domain):
                raise self.refuse(
                    f"attribute {str(item.name)!r} is not supported",
                    "export the model without it",
                )

    def _take(self, name: str, kind: int) -> onnx.AttributeProto | None:
        value = self._attributes.pop(name, None)
        if value is not None and value.type != kind:
            raise self.damaged(f"attribute {name!r} has the wrong type", "export the model again")
        return value


_KINDS: Mapping[int, str] = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.INT8: "int8",
    onnx.TensorProto.UINT8: "uint8",
    onnx.TensorProto.INT16: "int16",
    onnx.TensorProto.INT32: "int32",
    onnx.TensorProto.INT64: "int64",
    onnx.TensorProto.BOOL: "bool",
}


_NARROW: Mapping[int, type[np.integer]] = {
    onnx.TensorProto.INT4: np.int8,
    onnx.TensorProto.UINT4: np.uint8,
}


def element_type_name(kind: int) -> str:
    """ONNX's name of an element type, or its number if there is no such type."""
    known = {int(value): str(name) for name, value in onnx.TensorProto.DataType.items()}
    return known.get(kind, str(kind))


def widened(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """A constant of 4-bit integers in 8 bits, any other one as it is."""
    dtype = _NARROW.get(tensor.data_type)
    if dtype is None or math.prod(tensor.dims) > MAX_ELEMENTS:
        return tensor
    try:
        values = np.asarray(onnx.numpy_helper.to_array(tensor)).astype(dtype)
    except (ValueError, TypeError):  # damaged, as `tensor_value` says
        return tensor
    return onnx.numpy_helper.from_array(values, tensor.name)


def tensor_value(tensor: onnx.TensorProto) -> Array:
    """The array of a TensorProto, after its size and type were checked."""
    name = tensor.name or "(constant)"
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise ModelError(
            f"tensors must lie inside the file, but {name!r} is external data; "
            "save the model with its data inside"
        )
    num_elements = 1
    for extent in tensor.dims:
        num_elements *= max(int(extent), 0)
        if num_elements > MAX_ELEMENTS:
            raise ModelError(
                f"a tensor must have at most {MAX_ELEMENTS} elements, not dimensions "
                f"{list(tensor.dims)} ({name!r}); use a smaller model"
            )
    if tensor.data_type not in _KINDS:
        raise UnsupportedError(
            "tensors must be float32, uint8 or signed integers, not "
            f"{element_type_name(tensor.data_type)} ({name!r}); "
            "export the model in float32 and quantize it to int8"
        )
    try:
        return np.asarray(onnx.numpy_helper.to_array(tensor))
    except (ValueError, TypeError) as error:
        raise ModelError(
            f"a tensor must hold as many values as its dimensions say, but {name!r} of "
            f"{list(tensor.dims)} does not; export the model again"
        ) from error
