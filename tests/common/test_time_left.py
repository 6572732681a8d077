"""The estimated rest of a step: told in whole minutes, and read again."""

import pytest

from daedal.common.time_left import minutes_left, time_left


@pytest.mark.parametrize(
    ("seconds", "minutes", "words"),
    [
        (0, 1, "about a minute left"),
        (60, 1, "about a minute left"),
        (61, 2, "about 2 minutes left"),
        (1200, 20, "about 20 minutes left"),
    ],
)
def test_what_is_told_is_read_again(seconds: float, minutes: int, words: str) -> None:
    assert time_left(seconds) == words
    assert minutes_left(f"routing (5, {words})") == minutes


def test_the_longest_rest_counts_and_other_texts_have_none() -> None:
    assert minutes_left("about 3 minutes left; about 12 minutes left; about a minute left") == 12
    assert minutes_left("80,000 connections left, what about 3 minutes") is None
