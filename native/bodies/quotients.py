"""`with_quotients`: the bodies of two vector operations for each processor.

A kernel's text calls ``rounded_quotient.vN(value, divisor, high, low)``: N float32, each divided by
another and rounded to a whole number, which is no -0; those beyond 2^22 may be off by one in their
last place. With multiply-adds that round once, products with the two parts of the reciprocal are
added, which give the same (`compiler.cpu.reciprocals`). Processors of x86 round by adding 2^23 and
half of it, at which floats are whole numbers: two operations, as their own instruction takes.
``quotient.vN`` of the same is not rounded, for what is converted to integers, which rounds, too.
"""

import re

from daedal.native.cpu import Cpu

__all__ = ["with_quotients"]

_WHOLE = 1.5 * 2.0**23
"""Floats of this size are whole numbers."""

_DECLARED = re.compile(r"^declare [^@\n]*@(rounded_)?quotient\.v(\d+)\([^\n]*\n", re.MULTILINE)


def with_quotients(text: str, cpu: Cpu) -> str:
    """The text with definitions for `cpu` instead of its declarations."""
    is_x86 = cpu.triple.startswith("x86_64")
    adds_at_once = not is_x86 or "fma" in cpu.features
    needed = set[str]()

    def defined(found: re.Match[str]) -> str:
        is_rounded, lanes = found[1] is not None, int(found[2])
        reals = f"<{lanes} x float>"
        lines = [f"%quotient = fdiv {reals} %value, %divisor"]
        if adds_at_once:
            needed.add(f"declare {reals} @llvm.fma.v{lanes}f32({reals}, {reals}, {reals})\n")
            given = f"{reals} %value, {reals} %high, {reals} %small"
            lines = [
                f"%small = fmul {reals} %value, %low",
                f"%quotient = call {reals} @llvm.fma.v{lanes}f32({given})",
            ]
        if not is_rounded:
            lines.append(f"ret {reals} %quotient")
        elif is_x86:
            lines += [
                f"%moved = fadd {reals} %quotient, splat (float {_WHOLE:e})",
                f"%whole = fsub {reals} %moved, splat (float {_WHOLE:e})",
                f"ret {reals} %whole",
            ]
        else:
            needed.add(f"declare {reals} @llvm.roundeven.v{lanes}f32({reals})\n")
            lines += [
                f"%rounded = call {reals} @llvm.roundeven.v{lanes}f32({reals} %quotient)",
                f"%whole = fadd {reals} %rounded, zeroinitializer",  # -0 + 0 is 0
                f"ret {reals} %whole",
            ]
        body = "\n".join(f"  {line}" for line in lines)
        kinds = ", ".join(f"{reals} %{name}" for name in ("value", "divisor", "high", "low"))
        name = f"{found[1] or ''}quotient.v{lanes}"
        head = f"define internal {reals} @{name}({kinds}) alwaysinline"
        return f"{head} {{\n{body}\n}}\n"

    changed = _DECLARED.sub(defined, text)
    return "".join(sorted(item for item in needed if item not in changed)) + changed
