"""Checks calibration samples, and splits them into one set of inputs per run."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ModelError
from daedal.compiler.graph.graph import Array, Graph
from daedal.compiler.graph.types import TensorType

__all__ = ["Samples", "split_samples"]

Samples = Mapping[str, npt.ArrayLike] | npt.ArrayLike
"""Arrays with the samples along axis 0, by input; or the array of the one input."""


def split_samples(graph: Graph, samples: Samples) -> list[dict[str, Array]]:
    """One dictionary of inputs for each sample.

    Raises
    ------
    ModelError
        For inputs that are missing or unknown, have another shape or type, are empty or are not
        finite.
    """
    wanted = {name: graph.types[name] for name in graph.inputs}
    if isinstance(samples, Mapping):
        given = {name: np.asarray(value) for name, value in samples.items()}
    elif len(wanted) == 1:
        given = {next(iter(wanted)): np.asarray(samples)}
    else:
        raise ModelError(
            f"samples must be arrays by name where a model has {len(wanted)} inputs; name "
            f"{', '.join(map(repr, wanted))}"
        )
    for name in (*wanted, *given):
        if name not in given or name not in wanted:
            raise ModelError(
                f"samples must have one array for each input, under its name, and {name!r} is "
                f"{'missing' if name in wanted else 'no input'}; the model has {_listed(wanted)}"
            )
    parts = {name: _items(name, given[name], kind) for name, kind in wanted.items()}
    counts = {len(items) for items in parts.values()}
    if len(counts) > 1:
        raise ModelError(f"all inputs must have the same number of samples, not {sorted(counts)}")
    (count,) = counts
    return [{name: items[number] for name, items in parts.items()} for number in range(count)]


def _listed(wanted: Mapping[str, TensorType]) -> str:
    return ", ".join(f"{name!r} of shape {kind.shape}" for name, kind in wanted.items())


def _items(name: str, array: Array, kind: TensorType) -> list[Array]:
    """The samples of one input, each in the shape that the model takes."""
    shape, dtype = kind.shape, np.dtype(kind.dtype)
    single = max(1, shape[0]) if shape else 1
    fits = array.ndim == len(shape) > 0 and array.shape[1:] == shape[1:]
    if not fits or array.shape[0] == 0 or array.shape[0] % single:
        raise ModelError(
            f"samples of input {name!r} must have shape {shape}, or several of it along axis 0, "
            f"not {array.shape}"
        )
    if array.dtype != dtype and not (dtype.kind == "f" and array.dtype.kind in "fiub"):
        raise ModelError(
            f"samples of input {name!r} must be {dtype}, not {array.dtype}; convert the array"
        )
    converted = array.astype(dtype, copy=False)
    if dtype.kind == "f" and not np.isfinite(converted).all():
        raise ModelError(
            f"samples must be finite, and input {name!r} has NaN or infinite values; clean them"
        )
    return np.split(converted, array.shape[0] // single)
