"""Passes that repeat a rewrite end, whatever the rewrite does."""

import pytest

from daedal.compiler.graph.fixpoint import to_fixpoint


def test_a_step_is_repeated_until_it_finds_nothing() -> None:
    halved = to_fixpoint("halve", 40, lambda n: None if n % 2 else n // 2, lambda n: n)
    assert halved == 5


def test_two_rules_that_undo_each_other_end_with_the_name_of_the_pass() -> None:
    with pytest.warns(RuntimeWarning, match="pass swap stopped because a step of it made no"):
        assert to_fixpoint("swap", (1, 2), lambda pair: pair[::-1], sorted) == (1, 2)


def test_a_measure_that_falls_too_long_ends_with_the_name_of_the_pass() -> None:
    with pytest.warns(RuntimeWarning, match="pass count stopped after 3 rounds"):
        assert to_fixpoint("count", 9, lambda n: n - 1, lambda n: n, max_rounds=3) == 6
