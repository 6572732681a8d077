"""Threads that run a function together with the thread that asks for it."""

import os
import threading

import pytest

from daedal.native.thread_team import ThreadTeam


@pytest.mark.parametrize("count", [1, 2, 4, 3])
def test_each_part_runs_once_and_all_run_together(count: int) -> None:
    team, all_here = ThreadTeam(), threading.Barrier(count)
    seen: list[tuple[int, int]] = []

    def part(number: int) -> None:
        all_here.wait(10)
        seen.append((number, threading.get_ident()))
        all_here.wait(10)

    for _ in range(3):
        seen.clear()
        team.start(part, count)
        part(0)
        assert sorted(number for number, _ in seen) == list(range(count))
        assert len({thread for _, thread in seen}) == count


def test_no_part_begins_where_a_thread_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    team, begun = ThreadTeam(), threading.Semaphore(0)
    start, started = threading.Thread.start, []

    def second_fails(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", second_fails)
    with pytest.raises(RuntimeError, match="new thread"):
        team.start(lambda _: begun.release(), 3)
    monkeypatch.undo()
    assert not begun.acquire(timeout=0.05)
    team.start(lambda _: begun.release(), 3)
    assert begun.acquire(timeout=10) and begun.acquire(timeout=10)
    assert not begun.acquire(timeout=0.05)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system places threads alone")
def test_others_keep_off_the_processor_of_the_thread_that_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    team, here = ThreadTeam(), [1, 1, 2, 2]
    placed: list[tuple[int, set[int]]] = []
    monkeypatch.setattr(team, "_processor", lambda: here.pop(0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr(os, "sched_setaffinity", lambda *given: placed.append(given))
    done = threading.Semaphore(0)

    def start() -> None:
        team.start(lambda _: done.release(), 3)
        assert done.acquire(timeout=10) and done.acquire(timeout=10)

    for _ in range(4):
        start()
    assert [others for _, others in placed] == [{0, 2}] * 2 + [{0, 1}] * 2
    assert len({thread for thread, _ in placed}) == 2
    assert threading.get_native_id() not in {thread for thread, _ in placed}
    here[:] = [0]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    start()
    assert len(placed) == 4, "one processor is left for all"
