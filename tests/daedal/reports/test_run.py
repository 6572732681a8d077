"""What a run says of many items."""

import pytest

from daedal.reports.run import repeats_text


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([8468], "8,468"),
        ([9000, 8468, 8468, 8468], "9,000, 8,468 (3 times)"),
        ([1, 2, 1], "1, 2, 1"),
        ([None, None], "unknown (2 times)"),
        ([], ""),
    ],
)
def test_equal_numbers_are_counted(counts: list[int | None], expected: str) -> None:
    assert repeats_text(counts) == expected
