"""One thread or several: whichever was faster lately."""

from collections.abc import Callable

from daedal.runtime.thread_choice import AGAIN, FIRST, MOST, REMEMBERED, TRIALS, ThreadChoice


def runs(choice: ThreadChoice, count: int, seconds: Callable[[bool], float]) -> list[bool]:
    """What `count` runs were, which took `seconds`."""
    found = []
    for _ in range(count):
        together = choice.together()
        choice.took(together, seconds(together))
        found.append(together)
    return found


def test_the_faster_kind_is_chosen_after_a_few_runs_of_both() -> None:
    for faster in (True, False):
        choice = ThreadChoice()
        found = runs(choice, 20 * MOST, lambda kind, faster=faster: 1.0 if kind is faster else 1.1)
        assert found[: 2 * TRIALS] == [True] * TRIALS + [False] * TRIALS
        assert found.count(faster) / len(found) > 0.98
        last = found[-MOST - AGAIN :]
        assert last.count(not faster) == AGAIN


def test_slow_runs_now_and_then_change_nothing() -> None:
    """Such as the first one, whose memory is new."""
    choice = ThreadChoice()
    times = iter(range(10**6))
    found = runs(choice, 600, lambda kind: 9.0 if next(times) % 2 == 0 else 1.0 + kind)
    assert found[2 * TRIALS : FIRST] == [False] * (FIRST - 2 * TRIALS)
    assert found.count(True) < 60


def test_other_times_change_the_choice() -> None:
    """Another program has ended that kept the other processor busy."""
    choice = ThreadChoice()
    runs(choice, 5 * MOST, lambda kind: 2.0 if kind else 1.0)
    found = runs(choice, 3 * MOST, lambda kind: 0.5 if kind else 1.0)
    first = found.index(True)
    assert first <= MOST
    assert found[first:].count(True) > 0.95 * len(found[first:])


def test_a_choice_that_was_wrong_for_a_moment_is_soon_mended() -> None:
    choice = ThreadChoice()
    runs(choice, 5 * MOST, lambda kind: 0.5 if kind else 1.0)
    disturbed = runs(choice, REMEMBERED + AGAIN + 1, lambda kind: 3.0 if kind else 1.0)
    assert not disturbed[-1]
    found = runs(choice, FIRST + AGAIN + 1, lambda kind: 0.5 if kind else 1.0)
    assert found[-1]


def test_a_few_slow_runs_in_a_row_change_nothing() -> None:
    choice = ThreadChoice()
    runs(choice, 2 * TRIALS + 1, lambda kind: 0.5 if kind else 1.0)
    found = runs(choice, REMEMBERED - 1, lambda kind: 3.0 if kind else 1.0)
    assert all(found)
