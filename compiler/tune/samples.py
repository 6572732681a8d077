"""`Samples`: measured configurations as features, a bounded number of every task, in a file."""

import dataclasses
import io
import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from daedal.common.errors import TuningError
from daedal.common.files import write_atomically
from daedal.common.inputs import read_input
from daedal.compiler.tune.candidates import fastest_and_spread
from daedal.compiler.tune.cost_model import Columns, Reals
from daedal.compiler.tune.features import ANALYTIC, analytic, seen_by_model

__all__ = ["Matrix", "Samples", "Training", "matrix_of"]

PER_TASK = 256
"""Samples kept of one task: half of them the fastest, the others spread over the rest."""

MAX_TASKS = 4096
MAX_FILE_BYTES = 1 << 28


Matrix = npt.NDArray[np.float32]
"""(configurations, features); NaN for a feature that a configuration does not have."""


@dataclass(frozen=True)
class Training:
    """What models are fitted to."""

    names: tuple[str, ...]
    """Features, the columns of `matrix`."""
    matrix: Matrix
    """(samples, features); NaN for a feature that a task does not have."""
    targets: Reals
    weights: Reals
    tasks: npt.NDArray[np.int64]
    """(samples,): the number of each sample's task."""

    def centered(self, values: Reals) -> Reals:
        """`values` (samples, ...) less their weighted mean over each task."""
        shape = (-1, *[1] * (values.ndim - 1))
        sums = np.zeros((int(self.tasks.max()) + 1, *values.shape[1:]))
        np.add.at(sums, self.tasks, self.weights.reshape(shape) * values)
        totals = np.bincount(self.tasks, self.weights).reshape(shape)
        found: Reals = values - (sums / totals)[self.tasks]
        return found


_DAMAGED = (
    *(ValueError, TypeError, KeyError, EOFError, OSError, RecursionError),
    *(zipfile.BadZipFile, zlib.error),
)
"""What reading a file of something else may raise."""

_Task = tuple[Columns, Reals]
"""Features and cycles."""


class Samples:
    """Features and cycles by task, at most `per_task` of each."""

    def __init__(self, *, per_task: int = PER_TASK) -> None:
        self._per_task = per_task
        self._tasks: dict[str, _Task] = {}

    def __len__(self) -> int:
        return sum(len(cycles) for _, cycles in self._tasks.values())

    @property
    def tasks(self) -> list[str]:
        """The tasks, in the order in which they came."""
        return list(self._tasks)

    def add(self, task: str, features: Columns, cycles: Reals) -> None:
        """Replace what is known of `task`; cycles are positive and finite.

        Where there are too many tasks, the one that came first is forgotten.
        """
        assert np.isfinite(cycles).all() and (cycles > 0).all()
        self._tasks.pop(task, None)  # the latest comes last
        while len(self._tasks) >= MAX_TASKS:
            del self._tasks[next(iter(self._tasks))]
        order = np.argsort(cycles, kind="stable")
        self._tasks[task] = _rows((features, cycles), fastest_and_spread(order, self._per_task))

    def training(self, *, prior: bool) -> Training:
        """Targets and weights of the samples.

        A target is the logarithm of the cycles, with `prior` of those per cycle of the `analytic`
        estimate; either less the task's mean. The closer a sample is to the best one of its task,
        the more it weighs: only the order near the optimum matters.
        """
        parts = list(self._tasks.values())
        names = seen_by_model((name for columns, _ in parts for name in columns), prior=prior)
        values = [np.log(cycles) for _, cycles in parts]
        if prior:
            expected = [analytic(columns) for columns, _ in parts]
            values = [value - known for value, known in zip(values, expected, strict=True)]
        data = Training(
            names,
            np.concatenate([matrix_of(columns, names) for columns, _ in parts]),
            np.concatenate(values),
            np.concatenate([(cycles.min() / cycles) ** 2 for _, cycles in parts]),
            np.repeat(np.arange(len(parts)), [len(cycles) for _, cycles in parts]),
        )
        return dataclasses.replace(data, targets=data.centered(data.targets))

    def save(self, path: str | Path) -> None:
        """Write all samples to the file `path`. Raises UserError as `write_atomically`."""
        names = sorted({name for columns, _ in self._tasks.values() for name in columns})
        parts = list(self._tasks.values())
        head = {"names": names, "tasks": self.tasks, "counts": [len(cycles) for _, cycles in parts]}
        file = io.BytesIO()
        np.savez_compressed(
            file,
            head=np.array(json.dumps(head)),
            matrix=np.concatenate([matrix_of(columns, names) for columns, _ in parts])
            if parts
            else np.zeros((0, 0), np.float32),
            cycles=np.concatenate([cycles for _, cycles in parts]) if parts else np.zeros(0),
        )
        write_atomically(Path(path), file.getvalue())

    @classmethod
    def load(cls, path: str | Path, *, per_task: int = PER_TASK) -> "Samples":
        """The samples that `save` wrote.

        Raises
        ------
        TuningError
            The file is missing, too large, or not a file of samples.
        """
        data = read_input(path, "a file of samples", MAX_FILE_BYTES, TuningError)
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as found:
                head = json.loads(str(found["head"]))
                matrix, cycles = found["matrix"], found["cycles"]
            _check(head, matrix, cycles)
        except _DAMAGED as e:
            raise TuningError(
                f"a model's samples must be a file that Daedal wrote, and {str(path)!r} is none; "
                "remove it, or choose another path"
            ) from e
        samples = cls(per_task=per_task)
        begin = 0
        for task, count in zip(head["tasks"], head["counts"], strict=True):
            part = matrix[begin : begin + count].astype(np.float64)
            columns = dict(zip(head["names"], part.T, strict=True))
            columns = {name: column for name, column in columns.items() if _present(column)}
            samples.add(task, columns, cycles[begin : begin + count])
            begin += count
        return samples


def matrix_of(columns: Columns, names: Sequence[str]) -> Matrix:
    """(configurations, features), NaN for those that are missing."""
    missing = np.full(len(next(iter(columns.values()))), np.nan)
    return np.stack([columns.get(name, missing) for name in names], axis=1).astype(np.float32)


def _rows(part: _Task, rows: npt.NDArray[np.int64]) -> _Task:
    columns, cycles = part
    return {name: column[rows] for name, column in columns.items()}, cycles[rows]


def _check(head: Mapping[str, object], matrix: Reals, cycles: Reals) -> None:
    """Raise ValueError unless the parts of a file fit together."""
    names, tasks, counts = head["names"], head["tasks"], head["counts"]
    if not (isinstance(names, list) and isinstance(tasks, list) and isinstance(counts, list)):
        raise ValueError("not lists")
    texts = all(isinstance(text, str) for text in (*names, *tasks))
    numbers = all(type(count) is int and count > 0 for count in counts)
    fits = matrix.shape == (len(cycles), len(names)) and cycles.shape == (sum(counts),)
    real = matrix.dtype == np.float32 and cycles.dtype == np.float64
    if not (texts and numbers and fits and real and len(tasks) == len(counts) == len(set(tasks))):
        raise ValueError("of other shapes")
    if not (np.isfinite(cycles).all() and (cycles > 0).all()):
        raise ValueError("no cycles")
    if counts:
        known = matrix[:, [names.index(name) for name in ANALYTIC]]
        if not (np.isfinite(known).all() and (known[:, 0] >= 1).all()):
            raise ValueError("no estimates")


def _present(column: Reals) -> bool:
    return not np.isnan(column).all()
