"""Hulls of ranges: exact where they keep their distance, else over all that the loops reach."""

import pytest

from daedal.compiler.tir.expr import IntImm, Var
from daedal.compiler.tir.region import join
from daedal.compiler.tir.stmt import Range

ROW, COL = Var("i"), Var("j")
EXTENTS = {ROW: 4, COL: 10}


@pytest.mark.parametrize(
    ("first", "second", "hull"),
    [
        (Range(ROW, 3), Range(ROW + 2, 3), (ROW, 5)),
        (Range(ROW + 2, 3), Range(ROW, 3), (ROW, 5)),
        (Range(ROW, 8), Range(ROW + 2, 3), (ROW, 8)),
        (Range(ROW * 2, 3), Range(COL + 1, 5), (0, 15)),
        (Range(COL + 1, 5), Range(ROW * 2, 3), (0, 15)),
        (Range(COL + 3, 1), Range(ROW + 4, 30), (3, 34)),
    ],
)
def test_joined_ranges(first: Range, second: Range, hull: tuple[object, int]) -> None:
    found = join(first, second, EXTENTS)
    low = found.min.value if isinstance(found.min, IntImm) else found.min
    assert (low, found.extent) == hull
