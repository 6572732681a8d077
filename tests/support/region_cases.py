"""Transfers at the end of their region and past it, for LOAD and STORE.

A case says which rows of memory lie inside before the first that does not.
"""

from dataclasses import dataclass

from daedal.hw.layouts import word_address_bits
from daedal.isa.variant import Variant

__all__ = ["RegionCase", "region_cases"]


@dataclass(frozen=True)
class RegionCase:
    """Fields of a transfer; the first `inside` rows of memory are in the region, then one is not.

    `inside` is None where all of them are.
    """

    name: str
    fields: dict[str, int]
    inside: int | None

    def __str__(self) -> str:
        return self.name


def region_cases(variant: Variant, words: int, line: int) -> list[RegionCase]:
    """Cases for a region of `words` bus words and rows of `line` of them, of which it holds 8."""
    assert words >= 8 * line
    # Row 33 of a walk in steps of `far` has an address in the region again.
    space = 1 << word_address_bits(variant)
    far = -(-space // 33)
    assert far < 1 << 24 and 33 * far % space + line <= words
    last = words - line

    def case(name: str, inside: int | None, offset: int, **fields: int) -> RegionCase:
        values = {"blocks": 1, "rows": 1, "offset_beats": offset}
        strides = {f"{key}_beats" if "stride" in key else key: fields[key] for key in fields}
        return RegionCase(name, {**values, **strides}, inside)

    return [
        case("a row ends exactly", None, last),
        case("rows end exactly", None, last - 2 * (line + 1), rows=3, row_stride=line + 1),
        case("blocks end exactly", None, last - 3 * line, rows=2, row_stride=line, blocks=2,
             block_stride=2 * line),
        case("a row is one word beyond", 0, last + 1),
        case("a row is all beyond", 0, words),
        case("the second row is beyond", 1, last, rows=3, row_stride=1),
        case("the third row is beyond", 2, last - 2 * line + 1, rows=3, row_stride=line),
        case("the second block is beyond", 2, last - line, rows=2, row_stride=line, blocks=2,
             block_stride=line + 1),
        case("the last row of the second block is beyond", 3, last - 3 * line + 1, rows=2,
             row_stride=line, blocks=2, block_stride=2 * line),
        case("the offset is the address space", 0, space),
        case("the offset is all ones", 0, (1 << 32) - 1),
        case("rows wrap around the address space", 1, 0, rows=34, row_stride=far),
        case("blocks wrap around the address space", 1, 0, blocks=34, block_stride=far),
    ]  # fmt: skip
