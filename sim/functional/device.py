"""The functional device: executes programs in program order as `isa.semantics` defines, untimed.

It runs machine code (`engine`) or, to check that, the definition itself.
"""

import time
from collections.abc import Collection, Sequence

import numpy as np

from daedal.common.errors import DeviceError, ProgramError
from daedal.isa.instruction import units_of
from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.isa.semantics import State, execute
from daedal.isa.table import Opcode, Unit
from daedal.isa.variant import Variant
from daedal.sim.functional.engine import Engine
from daedal.sim.host_memory import HostMemory

__all__ = ["FunctionalDevice"]


class FunctionalDevice(HostMemory):
    """A machine without timing. Scratchpads keep their contents between launches.

    Parameters
    ----------
    variant
        The machine.
    memory_bytes
        Initial memory size; it grows as needed.
    kernels
        Run machine code, compiled at the first launch of a variant (seconds) and kept on disk.
        Otherwise run `isa.semantics` in numpy: the same bytes, hundreds of times slower.
    without_features
        Features of this processor that the machine code must not use, such as ``avx512vnni``: the
        same bytes, at an older processor's speed.
    """

    def __init__(
        self,
        variant: Variant,
        *,
        memory_bytes: int = 1 << 16,
        kernels: bool = True,
        without_features: Collection[str] = (),
    ) -> None:
        super().__init__(variant, memory_bytes)
        self._state = State(variant)
        self._engine = Engine(self._state, without_features) if kernels else None
        # A caller that got the state may keep it and write to it: from then on every launch treats
        # the paired copies as stale.
        self._exposed = False

    @property
    def name(self) -> str:
        """``functional``."""
        return "functional"

    @property
    def state(self) -> State:
        """Scratchpads, for tests and debuggers; they may write to them."""
        self._exposed = True
        return self._state

    def launch(self, program: Program, bases: Sequence[int]) -> Profile:
        """Execute in program order, checking that every pop finds its token.

        Raises DeviceError, naming unit and instruction, where the machine would report an error.
        """
        program.check_launch(self._variant, "the functional simulator", bases)
        begin = time.perf_counter()
        with self._last.then(program) as running:
            self._run(running, bases)
        return Profile(device=self.name, wall_seconds=time.perf_counter() - begin)

    def _run(self, program: Program, bases: Sequence[int]) -> None:
        if self._engine is not None:
            counts = self._engine.launch(program, self._memory, bases, stale=self._exposed)
            tokens = {
                (Unit(source), Unit(target)): int(counts[source, target])
                for source, target in np.argwhere(counts)
            }
        else:
            tokens = self._interpret(program, bases)
        left = [f"{a.name} to {b.name}" for (a, b), count in sorted(tokens.items()) if count]
        if left:
            raise DeviceError(f"no token may be left at FINISH, but some are: {', '.join(left)}")

    def _interpret(self, program: Program, bases: Sequence[int]) -> dict[tuple[Unit, Unit], int]:
        """Run the definition; returns the tokens left over."""
        tokens: dict[tuple[Unit, Unit], int] = {}
        for index, instruction in enumerate(program.instructions):
            unit = instruction.unit
            for source in units_of(instruction.pop):
                if tokens.get((source, unit), 0) == 0:
                    raise DeviceError(
                        f"every pop must find a token in program order; instruction {index} "
                        f"({unit.name}) finds none from {source.name}"
                    )
                tokens[source, unit] -= 1
            try:
                execute(self._state, instruction, self._memory, bases, program.region_words)
            except ProgramError as error:
                raise DeviceError(f"instruction {index} ({unit.name}): {error}") from error
            for target in units_of(instruction.push):
                tokens[unit, target] = tokens.get((unit, target), 0) + 1
            if instruction.opcode is Opcode.FINISH:
                break
        else:
            raise DeviceError("a program must end with FINISH; this one does not")
        return tokens
