"""Compares a whole artifact on RTL with the simulators."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

import daedal
from bench.correctness.rtl_launches import rtl_device
from daedal.artifact.artifact import Artifact

__all__ = ["check_rtl"]


def check_rtl(artifact: Artifact, feeds: Mapping[str, npt.NDArray[np.float32]]) -> None:
    """Fail unless RTL has the functional simulator's bytes, in the cycles of the timing model."""
    variant = artifact.launches[0].program.variant
    timing, rtl, functional = (
        daedal.simulate(artifact, feeds, device=device)
        for device in ("timing", rtl_device(variant), "functional")
    )
    assert [x.cycles for x in rtl.profiles] == [x.cycles for x in timing.profiles]
    for name, tensor in functional.tensors.items():
        assert rtl.tensors[name].tobytes() == tensor.tobytes()
    for name, value in functional.outputs.items():
        assert rtl.outputs[name].tobytes() == value.tobytes()
