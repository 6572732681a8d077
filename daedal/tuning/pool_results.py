"""`FinishedResults`: results that workers of a pool have handed in, kept by its scheduler.

Dask leaves a result in the memory of the worker that computed it, and runs the task again if that
worker dies before the coordinator has fetched it. Here, a worker hands each result in as soon as
the measurement ends, and the scheduler acknowledges it. A task that is run again asks first, and
returns what was handed in. A measurement counts as finished when it is acknowledged; one that is
cut short before starts again.

Results travel as pickled bytes, over the pool's own connections; the scheduler does not read them.
"""

import pickle
from typing import Any

import distributed
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.utils import sync

__all__ = ["FinishedResults", "finished", "hand_in", "measured_by"]


class FinishedResults(SchedulerPlugin):  # type: ignore[misc]  # Dask has no types here
    """Keeps results by the keys of their tasks, until no coordinator wants the task any longer."""

    name = "daedal-finished-results"

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, bytes]] = {}
        self._scheduler: Any = None

    async def start(self, scheduler: Any) -> None:
        """Answer the functions of this module."""
        self._scheduler = scheduler
        scheduler.handlers["daedal_hand_in"] = self._hand_in
        scheduler.handlers["daedal_finished"] = self._finished

    def transition(self, key: Any, start: Any, finish: Any, *args: Any, **kwargs: Any) -> None:
        """Forget a result with its task."""
        if finish == "forgotten":
            self._kept.pop(key, None)

    def _hand_in(self, key: str, worker: str, result: bytes) -> bool:
        """Keep the first result of a task that somebody wants."""
        if key in self._scheduler.tasks:
            self._kept.setdefault(key, (worker, result))
        return True

    def _finished(self, key: str) -> tuple[str, bytes] | None:
        """The worker that measured, and the result."""
        return self._kept.get(key)


def finished() -> Any:
    """What was handed in for the task that runs now, on this worker; None for nothing."""
    worker = distributed.get_worker()
    key = worker.get_current_task()
    found = sync(worker.loop, worker.scheduler.daedal_finished, key=key)
    # Members of a pool run each other's code anyway (pool_security).
    return None if found is None else pickle.loads(found[1])  # noqa: S301


def hand_in(result: object) -> None:
    """Hand in the result of the task that runs now; return when the scheduler has it."""
    worker = distributed.get_worker()
    key = worker.get_current_task()
    data = pickle.dumps(result)
    sync(worker.loop, worker.scheduler.daedal_hand_in, key=key, worker=worker.address, result=data)


def measured_by(client: distributed.Client, key: str) -> str | None:
    """Address of the worker that handed in the result of a task, as a coordinator sees it."""
    found = client.sync(client.scheduler.daedal_finished, key=key)
    return None if found is None else str(found[0])
