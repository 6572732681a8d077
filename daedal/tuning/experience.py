"""`Experience`: what earlier runs measured, of any layer and machine, as a start for the next one.

Input: a file of samples, and the tasks that a run measured. Output: a model for each new search,
fitted to all samples.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from daedal.compiler.tune.cost_model import Columns
from daedal.compiler.tune.guided import SearchModel
from daedal.compiler.tune.samples import Samples
from daedal.compiler.tune.transfer import Transfer
from daedal.tuning.target import Setting
from daedal.tuning.task import Task

__all__ = ["Experience"]

_LEAST = 2
"""Measurements of a task from which something can be learned."""


class Experience:
    """The samples in the file `path`, which need not exist; None keeps nothing.

    Two runs that end at the same time may lose the samples of one: they only make searches faster.

    Raises
    ------
    TuningError
        The file is damaged, or is not a file of samples.
    """

    def __init__(self, path: Path | None = None, *, seed: int = 0) -> None:
        self._path = path
        samples = Samples.load(path) if path is not None and path.is_file() else None
        self._transfer = Transfer(samples, seed=seed)

    def model(self, columns: Columns) -> SearchModel:
        """A model for one search among configurations with these features."""
        return self._transfer.warm(columns)

    def learn(self, tasks: Sequence[Task], setting: Setting) -> None:
        """Add what was measured of `tasks`, and write the file."""
        place = setting.place
        for task in tasks:
            found = {config: n for config, n in task.measured.items() if n is not None}
            if len(found) >= _LEAST:
                columns = task.columns(task.space.table(list(found)))
                name = f"{task.workload.key} {place.fingerprint} {place.memory}"
                self._transfer.learn(name, columns, np.array(list(found.values()), np.float64))
        if self._path is not None:
            self._transfer.samples.save(self._path)
