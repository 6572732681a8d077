"""Types of the kernel language: scalars, arrays and records, for annotations and for casts.

For a type checker ``i8`` is ``int``, ``f64`` is ``float`` and ``Array[i8]`` a numpy array, so that
kernels are ordinary typed Python; at run time they are the objects of this module.
"""

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, Union

import numpy as np
import numpy.typing as npt

__all__ = [
    "Array",
    "ArrayType",
    "Kind",
    "Scalar",
    "f32",
    "f64",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
]


class Kind(enum.Enum):
    """What a kernel computes with; the value is LLVM's name."""

    INT = "i64"
    FLOAT = "double"
    BOOL = "i1"


@dataclass(frozen=True)
class Scalar:
    """An element type; called, a cast: ``i8(300)`` is 44, ``f64(3)`` is 3.0.

    A cast to an integer type keeps the low bits. `u64` values are kept as the signed number of the
    same 64 bits, because kernels compute with one integer type only.
    """

    name: str
    bits: int
    kind: Kind
    signed: bool = True

    def __call__(self, value: Any) -> Any:
        """Convert a Python number as a kernel does."""
        if self.kind is Kind.BOOL:
            return bool(value)
        if self.kind is Kind.FLOAT:
            return float(np.float32(value)) if self.bits == 32 else float(value)
        low = int(value) & ((1 << self.bits) - 1)
        negative = (self.signed or self.bits == 64) and low >> (self.bits - 1)
        return low - (1 << self.bits) if negative else low

    @property
    def dtype(self) -> np.dtype[Any]:
        """numpy's type of an array's elements (not for bool)."""
        letter = "f" if self.kind is Kind.FLOAT else "i" if self.signed else "u"
        return np.dtype(f"{letter}{self.bits // 8}")

    @property
    def llvm(self) -> str:
        """LLVM's type of an element in memory."""
        if self.kind is Kind.FLOAT:
            return "float" if self.bits == 32 else "double"
        return f"i{self.bits}"


@dataclass(frozen=True)
class ArrayType:
    """A 1-D C-contiguous numpy array of `element`s."""

    element: Scalar


class _ArrayFactory:
    """`Array` at run time: ``Array[i8]`` gives an `ArrayType`."""

    def __getitem__(self, element: Any) -> ArrayType:
        return ArrayType(element)


if TYPE_CHECKING:
    _T = TypeVar("_T")

    class _AnyArray(Any, Generic[_T]):
        """Lets a checker accept an array wherever one is used."""

    i8: TypeAlias = int
    i16: TypeAlias = int
    i32: TypeAlias = int
    i64: TypeAlias = int
    u8: TypeAlias = int
    u16: TypeAlias = int
    u32: TypeAlias = int
    u64: TypeAlias = int
    f32: TypeAlias = float
    f64: TypeAlias = float
    Array: TypeAlias = Union[npt.NDArray[Any], _AnyArray[_T]]  # noqa: UP007 - generic in _T
else:
    i8 = Scalar("i8", 8, Kind.INT)
    i16 = Scalar("i16", 16, Kind.INT)
    i32 = Scalar("i32", 32, Kind.INT)
    i64 = Scalar("i64", 64, Kind.INT)
    u8 = Scalar("u8", 8, Kind.INT, signed=False)
    u16 = Scalar("u16", 16, Kind.INT, signed=False)
    u32 = Scalar("u32", 32, Kind.INT, signed=False)
    u64 = Scalar("u64", 64, Kind.INT, signed=False)
    f32 = Scalar("f32", 32, Kind.FLOAT)
    f64 = Scalar("f64", 64, Kind.FLOAT)
    Array = _ArrayFactory()
