"""Several items at once: arrays that hold one item for each run along axis 0."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ModelError

__all__ = ["split_items", "stack_items"]


def split_items(
    shapes: Mapping[str, tuple[int, ...]], inputs: Mapping[str, npt.ArrayLike]
) -> list[dict[str, npt.NDArray[Any]]]:
    """Cut arrays that hold several items along axis 0 into one dictionary per run.

    `shapes` are those of one run's inputs; a number without axes is given alone, or several in one
    axis. Raises ModelError for inputs that do not fit.
    """
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    counts = set()
    for name in (*shapes, *arrays):
        if name not in shapes or name not in arrays:
            raise ModelError(
                f"a run needs one array for each input, under its name, and {name!r} is "
                f"{'missing' if name in shapes else 'no input'}; the model has "
                + ", ".join(f"{known!r} of shape {shape}" for known, shape in shapes.items())
            )
        shape = shapes[name]
        array = arrays[name] = np.atleast_1d(arrays[name]) if not shape else arrays[name]
        single = max(1, shape[0]) if shape else 1
        fits = array.ndim == max(1, len(shape)) and array.shape[1:] == shape[1:]
        if not fits or array.shape[0] == 0 or array.shape[0] % single:
            raise ModelError(
                f"input {name!r} must have shape {shape}, or several of it along axis 0, "
                f"not {array.shape}"
            )
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise ModelError(f"inputs must be numbers, and input {name!r} has NaN; clean it")
        counts.add(array.shape[0] // single)
    if len(counts) != 1:
        raise ModelError(f"all inputs must hold the same number of items, not {sorted(counts)}")
    (count,) = counts
    parts = {name: np.split(array, count) for name, array in arrays.items()}
    return [
        {name: items[k] if shapes[name] else items[k].reshape(()) for name, items in parts.items()}
        for k in range(count)
    ]


def stack_items(runs: Sequence[Mapping[str, npt.NDArray[Any]]]) -> dict[str, npt.NDArray[Any]]:
    """Arrays of all runs by name, along axis 0."""
    return {
        name: np.concatenate([np.atleast_1d(run[name]) for run in runs], axis=0) for name in runs[0]
    }
