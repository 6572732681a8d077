"""`with_nearest_products`: the bodies of two vector operations for each processor.

A kernel's text calls ``nearest_product.vN(value, high, low)``: N whole float32 times the sums of
two others each, rounded to int32, for products that are no ties (`compiler.tir.intrinsics`). With
multiply-adds that round once, it is done in float32: twice as many lanes as in float64, and no
conversions between vectors of different lengths. 1.5 * 2^23 plus a product rounds it to an integer
`n` in the last bits; what `n` lacks is exact up to 2^-25, and added to the sum it rounds again::

    sum = value * high + 1.5 * 2^23;  n = sum - 1.5 * 2^23
    lack = (value * high - n) + value * low;  result = last bits of (sum + lack)

``rounded_product.vN(value, high, low, added)`` is the same as float32, plus whole numbers;
``nearest_scaled.vN(value, high)`` and ``rounded_scaled.vN(value, high, added)`` have one factor,
whose product the first of these sums rounds to the nearest integer already.

Source: Dekker, "A Floating-Point Technique for Extending the Available Precision", Numerische
Mathematik 18, 1971, for the remainder of a product as a correction.
"""

import re
import struct

from daedal.native.cpu import Cpu

__all__ = ["with_nearest_products"]

_DECLARED = re.compile(
    r"^declare [^@\n]*@(nearest|rounded)_(product|scaled)\.v(\d+)\([^\n]*\n", re.MULTILINE
)
_MAGIC = 1.5 * 2**23
"""A float32 whose last bit is 1; integers from -2^22 to 2^22 added to it change its last bits."""


def with_nearest_products(text: str, cpu: Cpu) -> str:
    """The text with definitions for `cpu` instead of its declarations."""
    adds_at_once = not cpu.triple.startswith("x86_64") or "fma" in cpu.features
    needed = set[str]()

    def defined(found: re.Match[str]) -> str:
        lanes, is_real, is_split = int(found[3]), found[1] == "rounded", found[2] == "product"
        reals, whole, wide = (f"<{lanes} x {kind}>" for kind in ("float", "i32", "double"))
        names = ["value", "high", *(["low"] if is_split else []), *(["added"] if is_real else [])]
        kinds = ", ".join(f"{reals} %{name}" for name in names)
        name = f"{found[1]}_{found[2]}.v{lanes}"
        head = f"define internal {reals if is_real else whole} @{name}({kinds}) alwaysinline"
        body = (_narrow if adds_at_once else _wide)(lanes, is_real=is_real, is_split=is_split)
        lines = "\n".join(f"  {line}" for line in body)
        if adds_at_once:
            needed.add(f"declare {reals} @llvm.fma.v{lanes}f32({reals}, {reals}, {reals})\n")
        else:
            needed.add(f"declare {whole} @llvm.lrint.v{lanes}i32.v{lanes}f64({wide})\n")
        return f"{head} {{\n{lines}\n}}\n"

    changed = _DECLARED.sub(defined, text)
    return "".join(sorted(item for item in needed if item not in changed)) + changed


def _narrow(lanes: int, *, is_real: bool, is_split: bool) -> list[str]:
    """In float32."""
    reals, whole = f"<{lanes} x float>", f"<{lanes} x i32>"
    magic = f"splat (float {_MAGIC:.1f})"
    bits = int.from_bytes(struct.pack("<f", _MAGIC), "little")
    fma = f"call {reals} @llvm.fma.v{lanes}f32"
    own = "%rounded" if is_split else "%sum"
    end_real = [
        f"%base = fsub {reals} {magic}, %added",
        f"%result = fsub {reals} {own}, %base",
        f"ret {reals} %result",
    ]
    end_whole = [
        f"%number = bitcast {reals} {own} to {whole}",
        f"%result = sub {whole} %number, splat (i32 {bits})",
        f"ret {whole} %result",
    ]
    correction = [
        f"%nearest = fsub {reals} %sum, {magic}",
        f"%negative = fneg {reals} %nearest",
        f"%rest = {fma}({reals} %value, {reals} %high, {reals} %negative)",
        f"%lack = {fma}({reals} %value, {reals} %low, {reals} %rest)",
        f"%rounded = fadd {reals} %sum, %lack",
    ]
    return [
        f"%sum = {fma}({reals} %value, {reals} %high, {reals} {magic})",
        *(correction if is_split else []),
        *(end_real if is_real else end_whole),
    ]


def _wide(lanes: int, *, is_real: bool, is_split: bool) -> list[str]:
    """In float64."""
    reals, whole, wide = f"<{lanes} x float>", f"<{lanes} x i32>", f"<{lanes} x double>"
    end_real = [
        f"%rounded = sitofp {whole} %number to {reals}",
        f"%result = fadd {reals} %rounded, %added",
        f"ret {reals} %result",
    ]
    second = [
        f"%second = fpext {reals} %low to {wide}",
        f"%factor = fadd {wide} %first, %second",
    ]
    return [
        f"%real = fpext {reals} %value to {wide}",
        f"%first = fpext {reals} %high to {wide}",
        *(second if is_split else []),
        f"%product = fmul {wide} %real, {'%factor' if is_split else '%first'}",
        f"%number = call {whole} @llvm.lrint.v{lanes}i32.v{lanes}f64({wide} %product)",
        *(end_real if is_real else [f"ret {whole} %number"]),
    ]
