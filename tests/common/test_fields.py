"""Values out of manifests: what is taken, and that everything else is a ValueError."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from daedal.common.fields import MAX_NUMBER, flag, text, whole, wholes, word

NO_NUMBERS = (None, True, 1.0, "1", [], {}, math.nan, math.inf, -1, MAX_NUMBER + 1)


def test_what_is_right_stays() -> None:
    assert [whole(0), whole(-3, -3, 0), whole(MAX_NUMBER)] == [0, -3, MAX_NUMBER]
    assert whole(1 << 53) == MAX_NUMBER, "every JSON reader has numbers up to there"
    assert wholes([]) == () and wholes([3, 1, 2], 1, 3) == (3, 1, 2)
    assert text("../层/ü [x]") == "../层/ü [x]" and text("") == ""
    assert word("permute and pad") == "permute and pad" and word("q_conv2d") == "q_conv2d"
    assert flag(True) is True and flag(False) is False


@pytest.mark.parametrize(
    ("read", "value"),
    [
        *((whole, value) for value in NO_NUMBERS),
        *((wholes, value) for value in (None, 3, {}, [None], ["1"], "12", [1] * 33, [-1], [[1]])),
        *((text, value) for value in (None, 3, [], b"x", "a\nb", "\x1b[31m", "x" * 4_001)),
        *((word, value) for value in (None, "[/red]", "a\n", "x" * 101)),
        *((flag, value) for value in (None, 0, 1, "true", [])),
    ],
)
def test_everything_else_is_refused(read: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(ValueError, match="must stand there"):
        read(value)
