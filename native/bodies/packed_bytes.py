"""`with_packed_bytes`: the body of a vector operation for each processor.

A kernel's text calls ``packed_bytes.vN(a, b, ...)``: 2 or 4 vectors of 16 int32 become uint8 side
by side, what is below 0 or above 255 the nearest of these. With AVX-512, instructions pack two
vectors each, 128 bits at a time, so one permutation at the end puts all elements in order; those
that narrow one vector take twice as long.
"""

import re

from daedal.native.cpu import Cpu

__all__ = ["with_packed_bytes"]

_DECLARED = re.compile(r"^declare [^@\n]*@packed_bytes\.v(\d+)\([^\n]*\n", re.MULTILINE)
_WIDE, _WORDS = "<16 x i32>", "<32 x i16>"
_PACKS = (
    f"declare {_WORDS} @llvm.x86.avx512.packssdw.512({_WIDE}, {_WIDE})\n"
    f"declare <64 x i8> @llvm.x86.avx512.packuswb.512({_WORDS}, {_WORDS})\n"
)
_LIMITS = (
    f"declare {_WIDE} @llvm.smax.v16i32({_WIDE}, {_WIDE})\n"
    f"declare {_WIDE} @llvm.smin.v16i32({_WIDE}, {_WIDE})\n"
)


def with_packed_bytes(text: str, cpu: Cpu) -> str:
    """The text with definitions for `cpu` instead of its declarations."""
    packs = cpu.triple.startswith("x86_64") and "avx512bw" in cpu.features
    needed = set[str]()

    def defined(found: re.Match[str]) -> str:
        count = int(found[1]) // 16
        needed.update((_PACKS if packs else _LIMITS).splitlines(keepends=True))
        given = ", ".join(f"{_WIDE} %v{number}" for number in range(count))
        kind = f"<{16 * count} x i8>"
        head = f"define internal {kind} @packed_bytes.v{16 * count}({given}) alwaysinline"
        lines = "\n".join(f"  {line}" for line in (_packed if packs else _clipped)(count))
        return f"{head} {{\n{lines}\n}}\n"

    changed = _DECLARED.sub(defined, text)
    return "".join(sorted(item for item in needed if item not in changed)) + changed


def _packed(count: int) -> list[str]:
    """By instructions that work on each 128 bits: there 4 bytes of each vector lie side by side."""
    lines = [
        f"%w{number} = call {_WORDS} @llvm.x86.avx512.packssdw.512("
        f"{_WIDE} %v{2 * number}, {_WIDE} %v{2 * number + 1})"
        for number in range(count // 2)
    ]
    last = f"{_WORDS} %w0, {_WORDS} %w{count // 2 - 1}"
    numbers = [4 * part + vector for vector in range(count) for part in range(4)]
    mask = ", ".join(f"i32 {number}" for number in numbers)
    ordered = f"<{4 * count} x i32>"
    return [
        *lines,
        f"%b = call <64 x i8> @llvm.x86.avx512.packuswb.512({last})",
        f"%d = bitcast <64 x i8> %b to {_WIDE}",
        f"%o = shufflevector {_WIDE} %d, {_WIDE} poison, {ordered} <{mask}>",
        f"%r = bitcast {ordered} %o to <{16 * count} x i8>",
        f"ret <{16 * count} x i8> %r",
    ]


def _clipped(count: int) -> list[str]:
    """Each vector by itself."""
    lines = list[str]()
    joined = [f"%b{number}" for number in range(count)]
    for number, name in enumerate(joined):
        for op, source, limit in (("smax", f"%v{number}", 0), ("smin", f"%l{number}", 255)):
            result = f"%l{number}" if op == "smax" else f"%h{number}"
            splat = f"{_WIDE} splat (i32 {limit})"
            lines.append(f"{result} = call {_WIDE} @llvm.{op}.v16i32({_WIDE} {source}, {splat})")
        lines.append(f"{name} = trunc {_WIDE} %h{number} to <16 x i8>")
    size = 16
    while len(joined) > 1:
        kind, mask = f"<{size} x i8>", ", ".join(f"i32 {number}" for number in range(2 * size))
        pairs = list(zip(joined[::2], joined[1::2], strict=True))
        joined = [f"{first}j" for first, _ in pairs]
        for name, (first, second) in zip(joined, pairs, strict=True):
            both = f"{kind} {first}, {kind} {second}, <{2 * size} x i32> <{mask}>"
            lines.append(f"{name} = shufflevector {both}")
        size *= 2
    return [*lines, f"ret <{size} x i8> {joined[0]}"]
