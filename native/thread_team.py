"""`ThreadTeam`: threads that run a function together with the thread that asks for it.

Linux may wake a thread on the processor of the thread that wakes it, where both take turns: on two
cores of an AMD Zen 4 it did in 57 of 60 cases after a pause of 20 ms. So the team keeps off the
processor of the thread that asks.
"""

import ctypes
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

__all__ = ["ThreadTeam"]

Part = Callable[[int], object]


def _processor_reader() -> Callable[[], int] | None:
    """What says on which processor the calling thread runs, where the system tells and lets."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    function: Callable[[], int] | None = getattr(ctypes.PyDLL(None), "sched_getcpu", None)
    return function


class ThreadTeam:
    """Threads besides the one that starts them. They end with the process; a fork has none.

    Each runs the parts that it is given one after the other.
    """

    def __init__(self) -> None:
        self._members: list[_Member] = []
        self._processor = _processor_reader()
        self._avoided = -1

    def start(self, part: Part, count: int) -> None:
        """Let others begin `part(1)` to `part(count - 1)`, each in a thread of its own.

        Raises RuntimeError where a thread cannot start; then no part has begun.
        """
        while len(self._members) < count - 1:
            self._members.append(_Member(len(self._members) + 1))
            self._avoided = -1
        self._keep_apart()
        for member in self._members[: count - 1]:
            member.parts.put(part)

    def _keep_apart(self) -> None:
        if self._processor is None or (here := self._processor()) == self._avoided:
            return
        self._avoided = here
        if others := os.sched_getaffinity(0) - {here}:
            for member in self._members:
                member.stay_on(others)


class _Member:
    """A thread that waits for parts."""

    def __init__(self, number: int) -> None:
        self.parts: SimpleQueue[Part] = SimpleQueue()
        self._number = number
        self._thread = threading.Thread(target=self._run, name=f"daedal-{number}", daemon=True)
        self._thread.start()

    def stay_on(self, processors: set[int]) -> None:
        """Run on these alone from now on."""
        assert self._thread.native_id is not None, "it has started"
        os.sched_setaffinity(self._thread.native_id, processors)

    def _run(self) -> None:
        while True:
            self.parts.get()(self._number)
