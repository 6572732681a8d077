"""`with_dot_pairs`: the body of a vector operation for each processor.

A kernel's text calls ``dot_pairs.vN``, which multiplies 2 N int16 and adds them in pairs to N
int32. Processors of x86 do that in one instruction (pmaddwd; with the sum around it vpdpwssd where
they have it), whose name depends on the width of their vectors. LLVM finds it in plain products
only where these are used once.
"""

import re

from daedal.native.cpu import Cpu

__all__ = ["NAME", "with_dot_pairs"]

NAME = "dot_pairs"
_DECLARED = re.compile(rf"^declare [^@\n]*@{NAME}\.v(\d+)\([^\n]*\n", re.MULTILINE)
_WIDTHS = {"avx512bw": (16, "avx512.pmaddw.d.512"), "avx2": (8, "avx2.pmadd.wd")}
_NARROW = (4, "sse2.pmadd.wd")
"""Every x86-64 has it."""


def with_dot_pairs(text: str, cpu: Cpu) -> str:
    """The text with definitions for `cpu` instead of its declarations."""
    needed: set[str] = set()

    def defined(found: re.Match[str]) -> str:
        lanes = int(found[1])
        if not cpu.triple.startswith("x86_64"):
            return _definition(lanes, _plain(lanes))
        width, name = next(
            (item for feature, item in _WIDTHS.items() if feature in cpu.features), _NARROW
        )
        needed.add(
            f"declare <{width} x i32> @llvm.x86.{name}(<{2 * width} x i16>, <{2 * width} x i16>)\n"
        )
        return _definition(lanes, _split(lanes, width, name))

    changed = _DECLARED.sub(defined, text)
    return "".join(sorted(needed)) + changed


def _definition(lanes: int, body: list[str]) -> str:
    operands = f"<{2 * lanes} x i16> %a, <{2 * lanes} x i16> %b"
    lines = "\n".join(f"  {line}" for line in body)
    return (
        f"define internal <{lanes} x i32> @{NAME}.v{lanes}({operands}) alwaysinline {{\n"
        f"{lines}\n}}\n"
    )


def _mask(numbers: list[int], limit: int) -> str:
    """Which lanes are taken; poison where there are no more than `limit`."""
    items = ", ".join(f"i32 {number}" if number < limit else "i32 poison" for number in numbers)
    return f"<{len(numbers)} x i32> <{items}>"


def _split(lanes: int, width: int, name: str) -> list[str]:
    """Calls of the instruction for `width` sums at a time, joined one by one."""
    kind, lines, joined = f"<{2 * lanes} x i16>", [], ""
    for number in range(-(-lanes // width)):
        first = number * width
        part = _mask(list(range(2 * first, 2 * (first + width))), 2 * lanes)
        for operand in "ab":
            lines.append(
                f"%{operand}{number} = shufflevector {kind} %{operand}, {kind} poison, {part}"
            )
        operands = ", ".join(f"<{2 * width} x i16> %{operand}{number}" for operand in "ab")
        lines.append(f"%p{number} = call <{width} x i32> @llvm.x86.{name}({operands})")
        whole = _mask(list(range(lanes)), width)
        narrow = f"<{width} x i32>"
        lines.append(f"%w{number} = shufflevector {narrow} %p{number}, {narrow} poison, {whole}")
        if number == 0:
            joined = "%w0"
            continue
        chosen = _mask(
            [lane if lane < first else lanes + lane - first for lane in range(lanes)], 2 * lanes
        )
        result = f"<{lanes} x i32>"
        lines.append(f"%j{number} = shufflevector {result} {joined}, {result} %w{number}, {chosen}")
        joined = f"%j{number}"
    return [*lines, f"ret <{lanes} x i32> {joined}"]


def _plain(lanes: int) -> list[str]:
    """Products of the even and of the odd elements."""
    kind, lines = f"<{2 * lanes} x i16>", []
    for operand in "ab":
        for half in range(2):
            mask = _mask(list(range(half, 2 * lanes, 2)), 2 * lanes)
            name = f"{operand}{half}"
            lines.append(f"%n{name} = shufflevector {kind} %{operand}, {kind} poison, {mask}")
            lines.append(f"%{name} = sext <{lanes} x i16> %n{name} to <{lanes} x i32>")
    for half in range(2):
        lines.append(f"%p{half} = mul <{lanes} x i32> %a{half}, %b{half}")
    return [*lines, f"%s = add <{lanes} x i32> %p0, %p1", f"ret <{lanes} x i32> %s"]
