"""Networks of 20 to 60 nodes shaped like those that people run; weights are seeded."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from bench.zoo.sequence_shapes import audio, encoder, tagger
from bench.zoo.vision_shapes import efficientnet, unet, yolo

__all__ = ["SHAPES", "NetworkShape"]

SEED = 22
TOKENS = 50
"""Tokens are below this number."""


@dataclass(frozen=True)
class NetworkShape:
    """A network by the structure that it stands for."""

    name: str
    structure: Callable[[np.random.Generator], onnx.ModelProto]

    def build(self) -> onnx.ModelProto:
        """The model; the same one every time."""
        return self.structure(np.random.default_rng(SEED))

    def feeds(self, seed: int) -> dict[str, npt.NDArray[Any]]:
        """Inputs: normal floats, or tokens."""
        rng = np.random.default_rng((SEED, seed))
        found: dict[str, npt.NDArray[Any]] = {}
        for item in self.build().graph.input:
            kind = item.type.tensor_type
            shape = [dim.dim_value for dim in kind.shape.dim]
            if kind.elem_type == onnx.TensorProto.INT64:
                found[item.name] = rng.integers(0, TOKENS, shape)
            else:
                found[item.name] = rng.standard_normal(shape).astype(np.float32)
        return found


SHAPES = {
    item.name: item
    for item in (
        NetworkShape("yolo", yolo),
        NetworkShape("unet", unet),
        NetworkShape("efficientnet", efficientnet),
        NetworkShape("audio", audio),
        NetworkShape("tagger", tagger),
        NetworkShape("encoder", encoder),
    )
}
"""By name."""
