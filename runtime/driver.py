"""One driver for every device: place a program's regions, fill them, launch, read back."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ProgramError
from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.isa.protocols import Device
from daedal.isa.table import BASES
from daedal.isa.tensor import TensorSpec, pack_tensor, unpack_tensor

__all__ = ["LoadedProgram"]


@dataclass
class LoadedProgram:
    """A program placed on a device; constants are written once, inputs at every run.

    Inputs that are `kept` are not: they stay as the device has them.
    """

    program: Program
    device: Device
    bases: tuple[int, ...]
    kept: frozenset[str] = frozenset()

    @classmethod
    def place(cls, program: Program, device: Device, kept: Collection[str] = ()) -> "LoadedProgram":
        """Allocate the regions and write the constants."""
        program.check_variant(device.variant, f"the {device.name} device")
        bases = tuple(device.alloc(size) for size in program.region_bytes)
        device.write(bases[0], program.constants)
        return cls(program, device, bases, frozenset(kept))

    def write_region(self, base: int, data: bytes, offset_bytes: int = 0) -> None:
        """Write raw bytes into a region. Raises ProgramError where they do not fit."""
        size = self.program.region_bytes[base]
        if offset_bytes + len(data) > size:
            raise ProgramError(
                f"region {BASES[base]!r} holds {size} bytes, not {offset_bytes + len(data)}"
            )
        self.device.write(self.bases[base] + offset_bytes, data)

    def read_region(self, base: int) -> bytes:
        """All bytes of a region."""
        return self.device.read(self.bases[base], self.program.region_bytes[base])

    def read_tensor(self, spec: TensorSpec) -> npt.NDArray[np.int64]:
        """A tensor of the program as (N, C, H, W) integers."""
        data = self.device.read(self.bases[spec.base] + spec.offset_bytes, spec.size_bytes)
        return unpack_tensor(spec, data)

    def run(
        self, inputs: Mapping[str, npt.ArrayLike]
    ) -> tuple[dict[str, npt.NDArray[np.int64]], Profile]:
        """Write the inputs by name, launch, and read the outputs.

        Raises ProgramError for a missing input, one too many, or one of another shape.
        """
        known = {spec.name: spec for spec in self.program.inputs if spec.name not in self.kept}
        for name in (*known, *inputs):
            if name not in known or name not in inputs:
                raise ProgramError(
                    f"a run takes exactly the inputs {', '.join(known)}; {name!r} is "
                    f"{'missing' if name in known else 'none of them'}"
                )
        for name, spec in known.items():
            self.write_region(spec.base, pack_tensor(spec, inputs[name]), spec.offset_bytes)
        profile = self.device.launch(self.program, self.bases)
        return {spec.name: self.read_tensor(spec) for spec in self.program.outputs}, profile
