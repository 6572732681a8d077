"""What a worker of a pool does: the functions that Dask calls there, by their names."""

import functools
from multiprocessing.util import Finalize

from daedal.compiler.space import Config
from daedal.isa.errors import TuningError
from daedal.tuning.layer_task import CYCLE_MODEL, RTL
from daedal.tuning.runner import Result
from daedal.tuning.sandbox import Sandbox

__all__ = ["TAGS", "keep", "measure"]

TAGS = {"cycle-model": CYCLE_MODEL, "rtl": RTL}
"""Names of devices as Dask resources of a worker."""


def keep(task: bytes) -> bytes:
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

    Raises
    ------
    TuningError
        This worker has another version of Daedal, whose cycles may differ.
    """
    if version != _version():
        raise TuningError(
            f"the workers of a pool must have the coordinator's Daedal, {version}, not "
            f"{_version()}; install the same on all"
        )
    return _sandbox(timeout_seconds, memory_bytes).measure(key, task, Config.from_json(config))


@functools.cache
def _sandbox(timeout_seconds: float, memory_bytes: int) -> Sandbox:
    sandbox = Sandbox(timeout_seconds, memory_bytes)
    Finalize(None, sandbox.close, exitpriority=1)  # workers leave without `atexit`
    return sandbox


@functools.cache
def _version() -> str:
    from daedal.tuning.network import compiler_version

    return compiler_version()
