"""Rows that lie apart: the text before and after, and what it computes."""

import numpy as np
import pytest

from daedal.compiler.tir.interpreter import run
from daedal.compiler.tir.lower.alignment import lower_alignment
from daedal.compiler.tir.parser import parse_func
from daedal.compiler.tir.printer import func_text

TEXT = """
func kernel(x: int8[4, 31], out y: int8[31, 4]):
    alloc s: int8[4, 31] in shared {align_0: "32n+8", swizzle: 128}
    for i in 4, j in 31:
        s[i, j] = x[i, j]
    for i in 31, j in 4:
        y[i, j] = s[j, i] + s[0, 0]
""".lstrip()


def test_an_aligned_buffer_has_one_dimension() -> None:
    expected = (
        TEXT.replace('int8[4, 31] in shared {align_0: "32n+8", ', "int8[160] in shared {")
        .replace("s[i, j]", "s[i * 40 + j]")
        .replace("s[j, i] + s[0, 0]", "s[j * 40 + i] + s[0]")
    )
    assert func_text(lower_alignment(parse_func(TEXT))) == expected


@pytest.mark.parametrize("note", ["32n+8", "64n+0", "31n+0", "1n+0"])
def test_alignment_changes_no_result(note: str) -> None:
    x = np.arange(124, dtype=np.int8).reshape(4, 31)
    func = lower_alignment(parse_func(TEXT.replace("32n+8", note)))
    (found,) = run(func, {"x": x}).values()
    np.testing.assert_array_equal(found, x.T)
    assert "align" not in func_text(func)


def test_other_buffers_stay() -> None:
    text = TEXT.replace('align_0: "32n+8", ', "")
    assert func_text(lower_alignment(parse_func(text))) == text
