"""Element types of buffers and expressions, and their numpy counterparts."""

from functools import cache
from typing import Any

import numpy as np

from daedal.compiler.tir.errors import ExpressionError

__all__ = [
    "DTYPES",
    "INDEX_DTYPE",
    "check_dtype",
    "is_float",
    "is_integer",
    "limits",
    "numpy_dtype",
]

DTYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("bool", "float16", "float32", "float64"),
)
"""bfloat16 is not among them: numpy has none, so it could be stored but not defined."""

INDEX_DTYPE = "int32"
"""The dtype of loop and block variables, and of literal indices."""


def check_dtype(dtype: str) -> str:
    """Return `dtype`, or raise ExpressionError if it is not one of `DTYPES`."""
    if dtype not in DTYPES:
        raise ExpressionError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
    return dtype


def is_integer(dtype: str) -> bool:
    """Whether `dtype` is an integer type; bool is not."""
    return dtype.startswith(("int", "uint"))


def is_float(dtype: str) -> bool:
    """Whether `dtype` is a floating-point type."""
    return dtype.startswith("float")


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy dtype of the same name."""
    return np.dtype(dtype)


@cache
def limits(dtype: str) -> tuple[int, int]:
    """Smallest and largest value of an integer dtype."""
    info = np.iinfo(numpy_dtype(dtype))
    return int(info.min), int(info.max)
