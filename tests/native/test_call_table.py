"""Calls of functions one after the other."""

import ctypes
import threading
import time
from collections.abc import Callable

import pytest

from daedal.native.call_table import CallTable, KernelCall
from daedal.native.thread_team import ThreadTeam

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@pytest.mark.parametrize("failing", [None, 0, 2, 4])
def test_calls_run_in_order_up_to_the_one_that_fails(failing: int | None) -> None:
    seen: list[tuple[int, int, int]] = []

    def function(buffers: int, begin: int, end: int) -> int:
        seen.append((buffers, begin, end))
        return int(len(seen) - 1 == failing)

    code = FUNCTION(function)
    address = ctypes.cast(code, ctypes.c_void_p).value
    assert address is not None
    calls = [KernelCall(address, 1000 + number, 7 * number + 1) for number in range(5)]
    wanted = [(call.buffers, 0, call.iterations) for call in calls]
    table = CallTable(calls)
    for _ in range(2):
        seen.clear()
        assert table.run() == failing
        assert seen == (wanted if failing is None else wanted[: failing + 1])


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("failing", [None, 3])
def test_threads_share_iterations_and_wait_for_each_other(
    threads: int, failing: int | None
) -> None:
    """Every call begins when all parts of the one before it have ended."""
    lock = threading.Lock()
    running: dict[int, int] = {}
    done: dict[int, set[int]] = {}
    late: list[int] = []

    def function(buffers: int, begin: int, end: int) -> int:
        with lock:
            late.extend(number for number, count in running.items() if count and number != buffers)
            running[buffers] = running.get(buffers, 0) + 1
        time.sleep(0.0001)
        with lock:
            done.setdefault(buffers, set()).update(range(begin, end))
            running[buffers] -= 1
        return int(buffers - 1 == failing)

    code = FUNCTION(function)
    address = ctypes.cast(code, ctypes.c_void_p).value
    assert address is not None
    calls = [KernelCall(address, number + 1, 11, splits=number % 2 == 0) for number in range(6)]
    table = CallTable(calls, threads)
    team = ThreadTeam()
    for _ in range(20):
        done.clear()
        assert table.run(team) == failing
        last = len(calls) if failing is None else failing + 1
        assert done == {number + 1: set(range(11)) for number in range(last)}
    assert not late


@pytest.mark.parametrize(
    ("rounds", "each", "threads", "shared"),
    [
        (4, 33, 1, True),
        (4, 33, 2, True),
        (4, 33, 3, True),
        (5, 9, 2, True),
        (5, 10, 3, False),
        (3, 3, 2, False),
        (3, 3, 3, True),
        (40, 1, 2, False),
        (1, 50, 2, True),
    ],
)
def test_threads_share_each_round(rounds: int, each: int, threads: int, *, shared: bool) -> None:
    """Each has the same part of all rounds; of all iterations where parts would differ much."""
    seen: list[tuple[int, int]] = []

    def function(_buffers: int, begin: int, end: int) -> int:
        seen.append((begin, end))
        return 0

    code = FUNCTION(function)
    address = ctypes.cast(code, ctypes.c_void_p).value
    assert address is not None
    call = KernelCall(address, 0, rounds * each, splits=True, rounds=rounds)
    table = CallTable([call], threads)
    table.run(ThreadTeam())
    done = sorted(number for begin, end in seen for number in range(begin, end))
    assert done == list(range(rounds * each)), "each iteration once"
    sizes = [end - begin for begin, end in seen]
    if shared:
        assert len(seen) == threads * rounds
        assert len({(begin % each, end - begin) for begin, end in seen}) == threads
    else:
        assert len(seen) == threads
        assert max(sizes) - min(sizes) <= 1


def test_a_round_that_fails_is_the_last() -> None:
    seen: list[int] = []

    def function(_buffers: int, begin: int, _end: int) -> int:
        seen.append(begin)
        return int(begin == 20)

    code = FUNCTION(function)
    address = ctypes.cast(code, ctypes.c_void_p).value
    assert address is not None
    calls = [KernelCall(address, 0, 40, splits=True, rounds=4)] * 2
    assert CallTable(calls).run() == 0
    assert seen == [0, 10, 20]


def test_threads_that_started_end_where_others_do_not() -> None:
    ended = threading.Event()

    class One(ThreadTeam):
        """Starts one part; then somebody interrupts."""

        def start(self, part: Callable[[int], object], count: int) -> None:
            def one(number: int) -> None:
                part(number)
                ended.set()

            super().start(one, count - 1)
            raise KeyboardInterrupt

    code = FUNCTION(lambda *_: 0)
    address = ctypes.cast(code, ctypes.c_void_p).value
    assert address is not None
    table = CallTable([KernelCall(address, 1, 8, splits=True)] * 3, 3)
    with pytest.raises(KeyboardInterrupt):
        table.run(One())
    assert ended.wait(10), "it does not wait for the others for ever"
    assert table.run(ThreadTeam()) is None
