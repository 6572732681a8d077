"""Element types of buffers and expressions, and their numpy counterparts."""

from functools import cache
from typing import Any

import numpy as np

from daedal.compiler.tir.bfloat16 import BFLOAT16
from daedal.compiler.tir.errors import ExpressionError

__all__ = [
    "BUFFER_DTYPES",
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
"""Types that numpy has."""

BUFFER_DTYPES = (*DTYPES, BFLOAT16)
"""Numbers of bfloat16 are stored and converted, and nothing is computed of them."""

INDEX_DTYPE = "int32"
"""The dtype of loop and block variables, and of literal indices."""


def check_dtype(dtype: str) -> str:
    """Return `dtype`, or raise ExpressionError if it is not one of `BUFFER_DTYPES`."""
    if dtype not in BUFFER_DTYPES:
        raise ExpressionError(f"dtype must be one of {', '.join(BUFFER_DTYPES)}, not {dtype!r}")
    return dtype


def is_integer(dtype: str) -> bool:
    """Whether `dtype` is an integer type; bool is not."""
    return dtype.startswith(("int", "uint"))


def is_float(dtype: str) -> bool:
    """Whether `dtype` is a floating-point type."""
    return dtype.startswith(("float", "bfloat"))


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy dtype of the same name; of bfloat16, that of its bits (`bfloat16`)."""
    return np.dtype(np.uint16 if dtype == BFLOAT16 else dtype)


@cache
def limits(dtype: str) -> tuple[int, int]:
    """Smallest and largest value of an integer dtype."""
    info = np.iinfo(numpy_dtype(dtype))
    return int(info.min), int(info.max)
