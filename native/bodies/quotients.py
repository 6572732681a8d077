"""`with_quotients`: the body of a vector operation for each processor.

A kernel's text calls ``rounded_quotient.vN(value, divisor, high, low)``: N float32, each divided by
another and rounded to a whole number. With multiply-adds that round once, products with the two
parts of the reciprocal are added, which give the same (`compiler.cpu.reciprocals`).
"""

import re

from daedal.native.cpu import Cpu

__all__ = ["with_quotients"]

_DECLARED = re.compile(r"^declare [^@\n]*@rounded_quotient\.v(\d+)\([^\n]*\n", re.MULTILINE)


def with_quotients(text: str, cpu: Cpu) -> str:
    """The text with definitions for `cpu` instead of its declarations."""
    adds_at_once = not cpu.triple.startswith("x86_64") or "fma" in cpu.features
    needed = set[str]()

    def defined(found: re.Match[str]) -> str:
        lanes = int(found[1])
        reals = f"<{lanes} x float>"
        needed.add(f"declare {reals} @llvm.roundeven.v{lanes}f32({reals})\n")
        lines = [f"%quotient = fdiv {reals} %value, %divisor"]
        if adds_at_once:
            needed.add(f"declare {reals} @llvm.fma.v{lanes}f32({reals}, {reals}, {reals})\n")
            given = f"{reals} %value, {reals} %high, {reals} %small"
            lines = [
                f"%small = fmul {reals} %value, %low",
                f"%quotient = call {reals} @llvm.fma.v{lanes}f32({given})",
            ]
        lines += [
            f"%whole = call {reals} @llvm.roundeven.v{lanes}f32({reals} %quotient)",
            f"ret {reals} %whole",
        ]
        body = "\n".join(f"  {line}" for line in lines)
        kinds = ", ".join(f"{reals} %{name}" for name in ("value", "divisor", "high", "low"))
        head = f"define internal {reals} @rounded_quotient.v{lanes}({kinds}) alwaysinline"
        return f"{head} {{\n{body}\n}}\n"

    changed = _DECLARED.sub(defined, text)
    return "".join(sorted(item for item in needed if item not in changed)) + changed
