"""`check_results`: a compiled network computes on its variant what the integer reference does."""

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx.helper import tensor_dtype_to_np_dtype

from daedal.artifact.artifact import Artifact
from daedal.checking.layer_check import check_layers
from daedal.common.errors import ExploreError
from daedal.compiler.frontend.reader import read_model
from daedal.sim.functional.device import FunctionalDevice

__all__ = ["check_results"]

_MAX_MACS = 4_000_000
"""Up to so many multiplications, the ISA's definition is faster than compiling kernels for it."""


def check_results(model: bytes, artifact: Artifact, network: str) -> None:
    """Run `artifact` once on random inputs, and compare every layer with the reference.

    `model` is what it was compiled from; `network` is its name in messages.

    Raises ExploreError where a layer differs.
    """
    macs = sum(layer.macs for launch in artifact.launches for layer in launch.layers)
    device = FunctionalDevice(artifact.variant, kernels=macs > _MAX_MACS)
    rng = np.random.default_rng(0)
    types = {item.name: item.type.tensor_type.elem_type for item in read_model(model).graph.input}
    inputs = {
        value.name: _drawn(rng, value.shape, tensor_dtype_to_np_dtype(types[value.name]))
        for value in artifact.inputs
    }
    found = check_layers(artifact, model, inputs, device=device)
    if found.passed:
        return
    first = found.first_difference
    tensor = found.overwritten[0][0] if first is None else first.tensor
    raise ExploreError(
        f"a program must compute what the reference does, and tensor {tensor!r} of network "
        f"{network!r} on {artifact.variant.name} differs; please report it, with the variant's file"
    )


def _drawn(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> npt.NDArray[np.generic]:
    """Values of 8 bits over their whole range; of wider integers, which may be indices, 0 and 1."""
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind in "iu" and dtype.itemsize == 1:
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    return rng.integers(0, 2, shape).astype(dtype)
