"""`named_models`: the networks that variants are compared or searched for, by name."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from daedal.common.errors import ExploreError
from daedal.compiler.frontend.reader import Source, read_model, source_of

__all__ = ["Models", "named_models"]

Models: TypeAlias = str | Path | Sequence[str | Path] | Mapping[str, Source]
"""A file or several, which are known by their names without the suffix; or models by name."""


def named_models(models: Models) -> dict[str, bytes]:
    """The serialized models by name, in the order given.

    Raises
    ------
    ExploreError
        There are none, or two files have the same name.
    ModelError
        A model cannot be read.
    """
    if isinstance(models, str | Path):
        models = [models]
    if not isinstance(models, Mapping):
        files = {Path(path).stem: path for path in models}
        if len(files) < len(models):
            raise ExploreError("networks need different file names, which name them in the results")
        models = files
    if not models:
        raise ExploreError("variants are compared and searched for networks; give at least one")
    return {
        name: read_model(source_of(model)).SerializeToString(deterministic=True)
        for name, model in models.items()
    }
