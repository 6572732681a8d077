"""Weights in pairs as LLVM's text: a transposition by shuffles of two vectors at a time.

Written out because LLVM makes gathers of the loops, which some processors execute one element at a
time, and processors that are guarded against reading stale data through them even slower.
"""

from collections.abc import Mapping
from typing import Any

from daedal.sim.functional.shape import Shape

__all__ = ["pair_text"]

_LONGEST = 16
"""Pairs of a vector: 512 bits."""


def pair_text(names: Mapping[str, Any]) -> str:
    """`transfers.pair_part`: weights (lanes, block_in) become (pairs, lanes, 2)."""
    shape: type[Shape] = names["Shape"]
    total = shape.lanes * shape.pairs
    size = min(total, _LONGEST)
    vectors = [f"%v0.{k}" for k in range(total // size)]
    lines = ["%from = getelementptr inbounds i64, ptr %wgt, i64 %wgt.at"]
    for k in range(len(vectors)):
        lines += _loaded(f"0.{k}", size, shape.block_in == 1)
    # The pairs' numbers (lane, pair) in binary: each stage makes the last bit the first one.
    for stage in range(1, shape.pairs.bit_length()):
        lines += _sorted_by_last_bit(vectors, stage, size)
        vectors = [f"%v{stage}.{k}" for k in range(len(vectors))]
    for k, vector in enumerate(vectors):
        lines += [
            f"%at{k} = add i64 %pairs.at, {2 * size * k}",
            f"%to{k} = getelementptr inbounds i16, ptr %pairs, i64 %at{k}",
            f"store <{size} x i32> {vector}, ptr %to{k}, align 2",
        ]
    body = "\n".join("  " + line for line in [*lines, "ret void"])
    parameters = "ptr %wgt, i64 %wgt.size, i64 %wgt.at, ptr %pairs, i64 %pairs.size, i64 %pairs.at"
    return f"define internal void @SELF({parameters}) alwaysinline {{\n{body}\n}}\n"


def _loaded(name: str, size: int, single: bool) -> list[str]:
    """Lines for ``%v<name>``: `size` pairs of 16 bits, one weight and a 0 each if `single`."""
    vector = int(name.split(".")[1])
    elements = size if single else 2 * size
    wide, narrow, pairs = f"<{elements} x i64>", f"<{elements} x i16>", f"<{size} x i32>"
    return [
        f"%a{name} = getelementptr inbounds i64, ptr %from, i64 {vector * elements}",
        f"%l{name} = load {wide}, ptr %a{name}, align 8",
        f"%n{name} = trunc {wide} %l{name} to {narrow}",
        f"%v{name} = {'zext' if single else 'bitcast'} {narrow} %n{name} to {pairs}",
    ]


def _sorted_by_last_bit(vectors: list[str], stage: int, size: int) -> list[str]:
    """Lines that bring the elements of even numbers before those of odd ones, in all vectors."""
    kind, count = f"<{size} x i32>", len(vectors)
    lines = []
    for k in range(count):
        if count == 1:
            first, second = vectors[0], "poison"
            chosen = [*range(0, size, 2), *range(1, size, 2)]
        else:
            odd = int(k >= count // 2)
            first, second = (vectors[(2 * k + side) % count] for side in (0, 1))
            chosen = [2 * element + odd for element in range(size)]
        mask = ", ".join(f"i32 {element}" for element in chosen)
        lines.append(
            f"%v{stage}.{k} = shufflevector {kind} {first}, {kind} {second}, "
            f"<{size} x i32> <{mask}>"
        )
    return lines
