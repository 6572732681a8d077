"""Rows of a tensor copied into those of a wider one."""

import numpy as np
import pytest

from daedal.native.call_table import CallTable
from daedal.native.row_copies import RowCopies


@pytest.mark.parametrize(
    ("rows", "width", "step", "first"), [(5, 3, 7, 2), (1, 8, 8, 0), (4, 6, 6, 0)]
)
def test_nothing_else_is_written(rows: int, width: int, step: int, first: int) -> None:
    source = np.arange(1, rows * width + 1, dtype=np.uint16).reshape(rows, width)
    target = np.zeros((rows, step), np.uint16)
    copies = RowCopies(
        source.ctypes.data, target.ctypes.data + 2 * first, rows, 2 * width, 2 * step, splits=True
    )
    assert CallTable([copies.kernel]).run() is None
    wanted = np.zeros_like(target)
    wanted[:, first : first + width] = source
    np.testing.assert_array_equal(target, wanted)


def test_threads_have_rows_each() -> None:
    copies = RowCopies(0, 0, 7, 1, 1, splits=True)
    assert copies.kernel.parts(2) == [(0, 3, 7, 1), (3, 7, 7, 1)]
