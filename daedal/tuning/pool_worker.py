"""What a worker of a pool does: the functions that Dask calls there, by their names."""

import functools
import signal
from collections.abc import Callable
from multiprocessing.util import Finalize
from typing import TypeVar

from daedal.common.errors import TuningError
from daedal.compiler.ops.space import Config
from daedal.tuning.layer_task import CYCLE_MODEL, RTL
from daedal.tuning.pool_results import finished, hand_in
from daedal.tuning.runner import Result
from daedal.tuning.sandbox import Sandbox

__all__ = ["PRELOAD", "TAGS", "dask_setup", "installed_version", "keep", "measure", "once"]

_T = TypeVar("_T")

TAGS = {"cycle-model": CYCLE_MODEL, "rtl": RTL}
"""Names of devices as Dask resources of a worker."""


PRELOAD = "daedal.tuning.pool_worker"
"""What Dask loads into each worker: it calls `dask_setup`."""


def dask_setup(_worker: object) -> None:
    """Leave interrupts from the keyboard, which reach all processes, to the coordinator."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def keep(task: _T) -> _T:
    """A task, kept on the worker that returns it. Others get it from there, or compute it again."""
    return task


def measure(
    task: bytes,
    key: str,
    config: dict[str, int],
    version: str,
    timeout_seconds: float,
    memory_bytes: int,
) -> Result:
    """The result of one configuration of a task; the coordinator compares its bytes.

    Raises TuningError as `once`.
    """
    return once(
        version,
        lambda: _sandbox(timeout_seconds, memory_bytes).measure(
            key, task, Config.from_json(config)
        ),
    )


def once(version: str, work: Callable[[], _T]) -> _T:
    """The result of `work` for the task of Dask that runs now; it must not be None.

    What a worker has handed in, which died since, is not worked out again.

    Raises
    ------
    TuningError
        This worker has another version of Daedal, whose cycles may differ.
    """
    if version != installed_version():
        raise TuningError(
            f"the workers of a pool must have the coordinator's Daedal, {version}, not "
            f"{installed_version()}; install the same on all"
        )
    known: _T | None = finished()
    if known is not None:
        return known
    result = work()
    hand_in(result)
    return result


@functools.cache
def _sandbox(timeout_seconds: float, memory_bytes: int) -> Sandbox:
    sandbox = Sandbox(timeout_seconds, memory_bytes)
    Finalize(None, sandbox.close, exitpriority=1)  # workers leave without `atexit`
    return sandbox


@functools.cache
def installed_version() -> str:
    """That of the Daedal of this process, with a hash of all that cycles depend on."""
    from daedal.compiler.version import cycles_version

    return cycles_version()
