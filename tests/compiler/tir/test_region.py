"""Hulls of ranges: exact where they keep their distance, else over all that the loops reach."""

import pytest

from daedal.compiler.tir.expr import Buffer, IntImm, Var
from daedal.compiler.tir.region import join, union
from daedal.compiler.tir.stmt import Range, Region

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
    assert found is not None
    low = found.min.value if isinstance(found.min, IntImm) else found.min
    assert (low, found.extent) == hull


def test_indices_that_a_buffer_holds() -> None:
    """Two of them, of which nothing is known, cover the dimension; the other one stays exact."""
    x, index = Buffer("x", (7, 9), "float32"), Buffer("index", (10,), "int32")
    places = (index[COL], index[COL + 1])
    parts = [Region(x, (Range(ROW, 1), Range(place, 1))) for place in places]
    (hull,) = union(parts, EXTENTS)
    assert hull == Region(x, (Range(ROW, 1), Range(IntImm(0), 9)))
    (same,) = union([parts[0], parts[0]], EXTENTS)
    assert same == parts[0]
