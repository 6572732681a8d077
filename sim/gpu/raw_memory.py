"""Memory by address, for kernels."""

import ctypes
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from daedal.native.intrinsic import intrinsic
from daedal.native.types import f64, i64

__all__ = [
    "bits_of_float",
    "copy_bytes",
    "fill_words",
    "float_of_bits",
    "load_i32",
    "load_i64",
    "load_u16",
    "store_i32",
    "store_i64",
]

_Text = Callable[[Mapping[str, Any]], str]


def _load(kind: str, widen: str) -> _Text:
    value = f"  %value = {widen} {kind} %raw to i64\n" if widen else ""
    return lambda _names: (
        "define internal i64 @SELF(i64 %address) alwaysinline {\n"
        "  %place = inttoptr i64 %address to ptr\n"
        f"  %raw = load {kind}, ptr %place, align 1\n{value}"
        f"  ret i64 {'%value' if widen else '%raw'}\n}}\n"
    )


def _store(kind: str) -> _Text:
    narrow = f"  %raw = trunc i64 %value to {kind}\n" if kind != "i64" else ""
    return lambda _names: (
        "define internal void @SELF(i64 %address, i64 %value) alwaysinline {\n"
        "  %place = inttoptr i64 %address to ptr\n"
        f"{narrow}  store {kind} {'%raw' if narrow else '%value'}, ptr %place, align 1\n"
        "  ret void\n}\n"
    )


def _copy(_names: Mapping[str, Any]) -> str:
    return (
        "declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)\n"
        "define internal void @SELF(i64 %to, i64 %source, i64 %size) alwaysinline {\n"
        "  %target = inttoptr i64 %to to ptr\n"
        "  %from = inttoptr i64 %source to ptr\n"
        "  call void @llvm.memmove.p0.p0.i64(ptr %target, ptr %from, i64 %size, i1 false)\n"
        "  ret void\n}\n"
    )


@intrinsic(_load("i16", "zext"))
def load_u16(address: i64) -> i64:
    """The two bytes there."""
    return ctypes.c_uint16.from_address(address).value


@intrinsic(_load("i32", "sext"))
def load_i32(address: i64) -> i64:
    """The four bytes there."""
    return ctypes.c_int32.from_address(address).value


@intrinsic(_load("i64", ""))
def load_i64(address: i64) -> i64:
    """The eight bytes there."""
    return ctypes.c_int64.from_address(address).value


@intrinsic(_store("i32"))
def store_i32(address: i64, value: i64) -> None:
    """Write four bytes."""
    ctypes.c_int32.from_address(address).value = value


@intrinsic(_store("i64"))
def store_i64(address: i64, value: i64) -> None:
    """Write eight bytes."""
    ctypes.c_int64.from_address(address).value = value


@intrinsic(_copy)
def copy_bytes(to: i64, source: i64, size: i64) -> None:
    """Copy `size` bytes."""
    ctypes.memmove(to, source, size)


def _fill(_names: Mapping[str, Any]) -> str:
    return """define internal void @SELF(i64 %address, i64 %count, i64 %value) {
entry:
  %base = inttoptr i64 %address to ptr
  %word = trunc i64 %value to i32
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %loop, label %done
loop:
  %number = phi i64 [ 0, %entry ], [ %next, %loop ]
  %place = getelementptr i32, ptr %base, i64 %number
  store i32 %word, ptr %place, align 4
  %next = add i64 %number, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


@intrinsic(_fill)
def fill_words(address: i64, count: i64, value: i64) -> None:
    """Write `count` times the same four bytes."""
    for number in range(count):
        ctypes.c_int32.from_address(address + 4 * number).value = value


def _float_of_bits(_names: Mapping[str, Any]) -> str:
    return (
        "define internal double @SELF(i64 %bits) alwaysinline {\n"
        "  %low = trunc i64 %bits to i32\n"
        "  %value = bitcast i32 %low to float\n"
        "  %wide = fpext float %value to double\n"
        "  ret double %wide\n}\n"
    )


@intrinsic(_float_of_bits)
def float_of_bits(bits: i64) -> f64:
    """The float32 of these 32 bits."""
    return float(struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0])


def _bits_of_float(_names: Mapping[str, Any]) -> str:
    return (
        "define internal i64 @SELF(double %value) alwaysinline {\n"
        "  %narrow = fptrunc double %value to float\n"
        "  %bits = bitcast float %narrow to i32\n"
        "  %wide = sext i32 %bits to i64\n"
        "  ret i64 %wide\n}\n"
    )


@intrinsic(_bits_of_float)
def bits_of_float(value: f64) -> i64:
    """The 32 bits of the nearest float32."""
    return int(struct.unpack("<i", np.float32(value).tobytes())[0])
