"""`Lane`, `Place`: the lanes of a vectorized loop, and where in memory their elements lie.

`swizzled`, `in_panels`: where bytes of a GPU's shared memory lie that are not in C order.
"""

from dataclasses import dataclass
from functools import reduce

from daedal.compiler.tir.expr import Var
from daedal.native.function_text import FunctionText

__all__ = ["LINE_BYTES", "REPEATED", "Lane", "Place", "in_panels", "swizzled"]

LINE_BYTES, CHUNK_BYTES = 128, 16
"""Of a row of the banks of a GPU's shared memory, and of the widest access of one thread."""
REPEATED = (2, 4, 8, 16)
"""How many lanes may read one element of a vector: these divide the number of its first lane."""


@dataclass(frozen=True)
class Lane:
    """The loop whose iterations `first`, `first` + 1, ... are lanes, and how many."""

    var: Var
    count: int
    first: str | int = 0


@dataclass(frozen=True)
class Place:
    """Where an element lies: ``base[offset]``, and from lane to lane `step` elements further.

    `step` is 0 for one place of all lanes, and None where the lanes' places are a vector `offset`.
    Where `repeated` is more than 1, so many lanes each have one place.
    """

    offset: str
    constant: int
    step: int | None
    repeated: int = 1


def swizzled(text: FunctionText, place: str, every: int) -> str:
    """The number of a byte whose chunk of 16 is exchanged with others of its line of 128: their
    numbers are xored with that of the line, which changes after `every` bytes."""
    line = text.value(f"lshr i64 {place}, {(every // CHUNK_BYTES).bit_length() - 1}")
    mask = LINE_BYTES - CHUNK_BYTES
    return text.value(f"xor i64 {place}, {text.value(f'and i64 {line}, {mask}')}")


def in_panels(text: FunctionText, place: str, row_bytes: int, rows: int) -> str:
    """Where a byte lies: the first lines of all rows, then the second ones, and so on."""
    line = text.value(f"lshr i64 {place}, {LINE_BYTES.bit_length() - 1}")
    panel = text.value(f"and i64 {line}, {row_bytes // LINE_BYTES - 1}")
    down = text.value(f"lshr i64 {place}, {row_bytes.bit_length() - 1}")
    row = text.value(f"and i64 {down}, {rows - 1}")
    parts = (
        text.value(f"and i64 {place}, {LINE_BYTES - 1 | -row_bytes * rows}"),
        text.value(f"mul i64 {panel}, {rows * LINE_BYTES}"),
        text.value(f"mul i64 {row}, {LINE_BYTES}"),
    )
    return reduce(lambda a, b: text.value(f"or i64 {a}, {b}"), parts)
