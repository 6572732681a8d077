"""One thread or several: whichever was faster lately."""

from collections.abc import Callable

from daedal.runtime.thread_choice import AGAIN, EVERY, TRIALS, ThreadChoice


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
        found = runs(choice, 20 * EVERY, lambda kind, faster=faster: 1.0 if kind is faster else 1.1)
        assert found[: 2 * TRIALS] == [True] * TRIALS + [False] * TRIALS
        share = found.count(faster) / len(found)
        assert share > 1 - (2 * AGAIN + TRIALS) / EVERY
        assert found.count(not faster) >= 19 * AGAIN


def test_slow_runs_now_and_then_change_nothing() -> None:
    """Such as the first one, whose memory is new."""
    choice = ThreadChoice()
    times = iter(range(10**6))
    found = runs(choice, 600, lambda kind: 9.0 if next(times) % 2 == 0 else 1.0 + kind)
    assert found[2 * TRIALS : EVERY] == [False] * (EVERY - 2 * TRIALS)


def test_other_times_change_the_choice() -> None:
    """Another program has ended that kept the other processor busy."""
    choice = ThreadChoice()
    runs(choice, EVERY, lambda kind: 2.0 if kind else 1.0)
    found = runs(choice, 3 * EVERY, lambda kind: 0.5 if kind else 1.0)
    assert all(found[AGAIN:EVERY])
