"""`CallTable`: calls of functions one after the other, without Python between them.

Several threads run a table together: each call has a range of iterations for each of them, and all
wait for each other after every call. All leave after the same call: one that looks late may see
that a later call has failed already, and goes on to it.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise

from daedal.native.cache import ObjectCache
from daedal.native.codegen import LoadedCode, compile_text, load_object
from daedal.native.thread_team import ThreadTeam

__all__ = ["CallTable", "KernelCall"]

SPINS = 4096
"""Looks at the counter before a thread gives up its turn, again and again."""

MOST_UNEVEN = 1.125
"""Times the average that the longest part of a round may take."""

_SYMBOL = "daedal_calls"
_FIELDS = 6
_TEXT = f"""declare i32 @sched_yield()

define i64 @{_SYMBOL}(ptr %table, i64 %count, ptr %shared, i64 %threads) {{
entry:
  %failed = getelementptr i64, ptr %shared, i64 1
  %alone = icmp eq i64 %threads, 1
  br label %call
call:
  %number = phi i64 [ 0, %entry ], [ %next, %following ]
  %next = add nuw nsw i64 %number, 1
  %first = mul nuw nsw i64 %number, {_FIELDS}
  %row = getelementptr i64, ptr %table, i64 %first
  %function = load ptr, ptr %row, align 8
  %place1 = getelementptr i64, ptr %row, i64 1
  %buffers = load ptr, ptr %place1, align 8
  %place2 = getelementptr i64, ptr %row, i64 2
  %begin = load i64, ptr %place2, align 8
  %place3 = getelementptr i64, ptr %row, i64 3
  %end = load i64, ptr %place3, align 8
  %place4 = getelementptr i64, ptr %row, i64 4
  %step = load i64, ptr %place4, align 8
  %place5 = getelementptr i64, ptr %row, i64 5
  %rounds = load i64, ptr %place5, align 8
  %empty = icmp eq i64 %begin, %end
  br i1 %empty, label %arrive, label %work
work:
  %round = phi i64 [ 0, %call ], [ %further, %done ]
  %skipped = mul nuw nsw i64 %round, %step
  %from = add nuw nsw i64 %begin, %skipped
  %to = add nuw nsw i64 %end, %skipped
  %status = call i64 %function(ptr %buffers, i64 %from, i64 %to)
  %fails = icmp ne i64 %status, 0
  br i1 %fails, label %fail, label %done
done:
  %further = add nuw nsw i64 %round, 1
  %more_rounds = icmp ult i64 %further, %rounds
  br i1 %more_rounds, label %work, label %arrive
fail:
  store atomic i64 %next, ptr %failed release, align 8
  br label %arrive
arrive:
  br i1 %alone, label %look, label %add
add:
  %before = atomicrmw add ptr %shared, i64 1 acq_rel
  %target = mul nuw nsw i64 %next, %threads
  br label %wait
wait:
  %spins = phi i64 [ 0, %add ], [ %more, %again ], [ 0, %yield ]
  %arrived = load atomic i64, ptr %shared acquire, align 8
  %all = icmp uge i64 %arrived, %target
  br i1 %all, label %look, label %again
again:
  %more = add nuw nsw i64 %spins, 1
  %long = icmp eq i64 %more, {SPINS}
  br i1 %long, label %yield, label %wait
yield:
  %ignored = call i32 @sched_yield()
  br label %wait
look:
  %stopped = load atomic i64, ptr %failed acquire, align 8
  %last = sub i64 %stopped, 1
  %stops = icmp ult i64 %last, %next
  br i1 %stops, label %leave, label %following
following:
  %goes = icmp ult i64 %next, %count
  br i1 %goes, label %call, label %leave
leave:
  %result = phi i64 [ %stopped, %look ], [ 0, %following ]
  ret i64 %result
}}
"""


@lru_cache(maxsize=1)
def _code() -> LoadedCode:
    return load_object(ObjectCache().get(_TEXT, lambda: compile_text(_TEXT)), _SYMBOL)


@dataclass(frozen=True)
class KernelCall:
    """A function, the address of its buffers' addresses, and its iterations.

    Attributes
    ----------
    splits : whether several threads share the iterations; else the first one runs all.
    rounds : equal parts of the iterations. Threads share each of them, unless these are too short:
        so a thread computes the same part of a tensor as in other calls, which is in its cache.
    """

    function: int
    buffers: int
    iterations: int
    splits: bool = False
    rounds: int = 1

    def parts(self, threads: int) -> list[tuple[int, int, int, int]]:
        """Of each thread, what it begins and ends with in a round, the iterations of a round, and
        how many it takes part in."""
        if not self.splits:
            return [(0, self.iterations, 0, 1), *[(0, 0, 0, 1)] * (threads - 1)]
        each = self.iterations // self.rounds
        is_even = -(-each // threads) * threads <= each * MOST_UNEVEN
        rounds = self.rounds if is_even else 1
        step = self.iterations // rounds
        return [
            (begin, end, step, rounds)
            for begin, end in pairwise(step * part // threads for part in range(threads + 1))
        ]


class CallTable:
    """Calls that run in order.

    Parameters
    ----------
    calls : at least one; what the addresses point to must live as long as this object.
    threads : that run the table together.
    """

    def __init__(self, calls: Sequence[KernelCall], threads: int = 1) -> None:
        assert calls, "a table has at least one call"
        self._count, self._threads = len(calls), threads
        parts = [call.parts(threads) for call in calls]
        self._tables = [
            (ctypes.c_int64 * (_FIELDS * len(calls)))(
                *(
                    value
                    for call, own in zip(calls, parts, strict=True)
                    for value in (call.function, call.buffers, *own[thread])
                )
            )
            for thread in range(threads)
        ]
        self._code = _code()
        self._function: Callable[..., int] = ctypes.CFUNCTYPE(
            ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64
        )(self._code.address)

    def run(self, team: ThreadTeam | None = None) -> int | None:
        """Run all calls; the number of one that failed, after which none runs, or None.

        `team` has all threads but this one, and runs nothing else meanwhile: they wait for each
        other.
        """
        # Of each run its own: a thread may still leave the run before.
        shared = (ctypes.c_int64 * 2)()
        if self._threads > 1:
            assert team is not None, "several threads need a team"
            try:
                team.start(partial(self._part, shared), self._threads)
            except BaseException:
                # Those that have started wait for the others: let them go, as after a failed call.
                shared[1], shared[0] = 1, 1 << 62
                raise
        failed = self._part(shared, 0)
        return failed - 1 if failed else None

    def _part(self, shared: "ctypes.Array[ctypes.c_int64]", thread: int) -> int:
        table = ctypes.addressof(self._tables[thread])
        return int(self._function(table, self._count, ctypes.addressof(shared), self._threads))
