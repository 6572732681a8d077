"""Pairing of weights as LLVM IR text: a transposition by shuffles of two vectors at a time.

Written by hand because LLVM turns the loops into gathers. Some processors execute those one element
at a time, and mitigations against gather data sampling make them even slower.
"""

from collections.abc import Mapping
from typing import Any

from daedal.sim.functional.shape import Shape

__all__ = ["pair_text"]

_LONGEST = 16
"""Pairs per vector: 512 bits."""


def pair_text(names: Mapping[str, Any]) -> str:
    """`transfers.pair_part`: weights (lanes, block_in) become (pairs, lanes, 2)."""
    shape: type[Shape] = names["Shape"]
    total = shape.lanes * shape.pairs
    size = min(total, _LONGEST)
    vectors = [f"%v0.{k}" for k in range(total // size)]
    lines = ["%from = getelementptr inbounds i64, ptr %wgt, i64 %wgt.at"]
    for k in range(len(vectors)):
        lines += _loaded(f"0.{k}", size, shape.block_in == 1)
    # A pair's index is (lane, pair) in binary: each stage rotates the last bit to the front.
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
    """Lines for ``%v<name>``: `size` pairs of 16 bits; if `single`, each is one weight and a 0."""
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
    """Lines that move the even-numbered elements of all vectors before the odd-numbered ones."""
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
