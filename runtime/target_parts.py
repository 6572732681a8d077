"""What runs the parts of targets that the kit does not have, by the target's name.

A part's results may stay where it runs: it gives each as a `Kept`, and gets it back as it is. What
runs elsewhere gets the array that `Kept.to_host` brings.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from daedal.artifact.artifact import TargetPart
from daedal.common.errors import ArtifactError, ModelError
from daedal.runtime.host import Arrays

__all__ = ["Kept", "LoadedTargetPart", "Loader", "TargetRun", "add_loader", "bring"]


class Kept:
    """A tensor that a target keeps. `target` is its name."""

    target: str

    def to_host(self) -> npt.NDArray[Any]:
        """The tensor, brought to the host."""
        raise NotImplementedError


class LoadedTargetPart(Protocol):
    """A part that is ready to run."""

    def run(self, values: Mapping[str, npt.NDArray[Any] | Kept]) -> Mapping[str, Any]:
        """The part's outputs by name, arrays or `Kept`.

        `values` has its inputs: arrays, and what earlier parts of this target kept.
        """
        ...


Loader = Callable[[TargetPart], LoadedTargetPart]

_LOADERS: dict[str, Loader] = {}


def add_loader(target: str, loader: Loader) -> None:
    """Let `loader` load the parts of `target`."""
    _LOADERS[target] = loader


def bring(kept: Mapping[str, Kept], values: Arrays, names: Iterable[str]) -> None:
    """Bring those of these tensors to the host that another target still keeps."""
    for name in names:
        if name in kept and name not in values:
            values[name] = kept[name].to_host()


class TargetRun:
    """A part of another target, ready to run.

    Raises ArtifactError where nothing here runs its target.
    """

    def __init__(self, part: TargetPart) -> None:
        loader = _LOADERS.get(part.target)
        if loader is None:
            raise ArtifactError(
                f"a part of an artifact must have a target that is known here, not {part.target!r};"
                " make it known with `daedal.add_target`"
            )
        self._part = part
        self._loaded = loader(part)

    def run(self, values: Arrays, kept: dict[str, Kept]) -> None:
        """Add the results to `values`, or to `kept` where they stay on the target.

        Raises ModelError for a missing input.
        """
        own = {
            name: item
            for name in self._part.inputs
            if (item := kept.get(name)) is not None and item.target == self._part.target
        }
        others = [name for name in self._part.inputs if name not in own]
        bring(kept, values, others)
        missing = [name for name in others if name not in values]
        if missing:
            raise ModelError(
                f"a run must give the tensor {missing[0]!r}; it got "
                f"{', '.join(map(repr, values)) or 'nothing'}"
            )
        results = self._loaded.run({**{name: values[name] for name in others}, **own})
        for name in self._part.outputs:
            result = results[name]
            if isinstance(result, Kept):
                kept[name] = result
            else:
                values[name] = np.asarray(result)
