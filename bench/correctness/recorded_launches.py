"""`recorded`: the launches of one run of a network, with memory before and after each.

Input: an artifact and arrays. Output: what simulators can run again, and the bytes that the
functional simulator leaves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daedal.artifact.artifact import Artifact
from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.isa.variant import Variant
from daedal.runtime.executor import Executor
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.rtl.launch import Launch

__all__ = ["Recorder", "random_inputs", "recorded"]


@dataclass(frozen=True)
class _Recorded:
    """A launch, and memory of the same extent after it."""

    launch: Launch
    after: bytes


class Recorder(FunctionalDevice):
    """Keeps what is launched on it."""

    def __init__(self, variant: Variant) -> None:
        super().__init__(variant)
        self.recorded: list[_Recorded] = []
        self._end = 0

    @property
    def launches(self) -> list[Launch]:
        """Without what they leave."""
        return [item.launch for item in self.recorded]

    def alloc(self, size_bytes: int) -> int:
        """Address of a new region."""
        address = super().alloc(size_bytes)
        self._end = address + size_bytes
        return address

    def launch(self, program: Program, bases: Sequence[int]) -> Profile:
        """Execute, and keep memory before and after."""
        before = Launch(program, tuple(bases), self.read(0, self._end))
        profile = super().launch(program, bases)
        self.recorded.append(_Recorded(before, self.read(0, self._end)))
        return profile


def random_inputs(
    executor: Executor, rng: np.random.Generator
) -> dict[str, npt.NDArray[np.float32]]:
    """An array between 0 and 1 for every input."""
    return {
        name: rng.random(shape, dtype=np.float32) for name, shape in executor.input_shapes.items()
    }


def recorded(
    artifact: Artifact, feeds: Mapping[str, npt.NDArray[np.float32]] | None = None, seed: int = 6
) -> list[_Recorded]:
    """The launches of a run with `feeds`, or with random inputs."""
    recorder = Recorder(artifact.variant)
    executor = Executor(artifact, recorder)
    executor.run(feeds or random_inputs(executor, np.random.default_rng(seed)))
    return recorder.recorded
