"""A preload of Dask for workers of tests: each dies when it has handed in a result, once for each
candidate, before anyone can fetch it. It writes down what it measures."""

import os
import signal
from typing import Any

from daedal.compiler.ops.space import Config
from daedal.tuning import pool_worker
from daedal.tuning.runner import Result
from daedal.tuning.sandbox import Sandbox

__all__ = ["LOG", "dask_setup"]

LOG = "DAEDAL_TEST_MEASURED"
"""Environment variable with the file that has a line for each measurement that ended."""

_measure = Sandbox.measure
_hand_in = pool_worker.hand_in


def dask_setup(worker: object) -> None:
    """Prepare this worker."""
    pool_worker.dask_setup(worker)
    Sandbox.measure = _logged_measure  # type: ignore[method-assign]
    pool_worker.hand_in = _hand_in_and_die


def _logged_measure(self: Sandbox, key: str, task: bytes, config: Config) -> Result:
    found = _measure(self, key, task, config)
    with open(os.environ[LOG], "a", encoding="utf-8") as file:
        file.write(f"{config}\n")
    return found


def _hand_in_and_die(*arguments: Any) -> None:
    with open(os.environ[LOG], encoding="utf-8") as file:
        lines = file.readlines()
    _hand_in(*arguments)
    if lines.count(lines[-1]) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
