"""Runs programs on an `isa.semantics.State` with machine code."""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.common.errors import DeviceError, ProgramError
from daedal.isa.numerics import IntArray
from daedal.isa.program import Program
from daedal.isa.semantics import ByteMemory, State, execute
from daedal.isa.table import Unit
from daedal.isa.variant import Variant
from daedal.native.kernel import Kernel
from daedal.sim.functional.columns import columns
from daedal.sim.functional.machine import Machine
from daedal.sim.functional.run import UNITS, Ending, run
from daedal.sim.functional.shape import Shape, shape_of

__all__ = ["Engine", "run_kernel"]


@lru_cache(maxsize=32)
def run_kernel(variant: Variant, without_features: frozenset[str] = frozenset()) -> Kernel:
    """`run.run` for one variant: compiled once, kept on disk."""
    return run.specialized({"Shape": shape_of(variant)}, without_features)


class Engine:
    """Executes programs on `state`, bit for bit as `isa.semantics.execute` does.

    What the kernels do not handle (an illegal instruction, a base address that is not a multiple of
    8) is passed to `execute`, which runs it or raises.

    The machine code does not use the processor features named in `without_features`.
    """

    def __init__(self, state: State, without_features: Collection[str] = ()) -> None:
        self._state = state
        self._shape: type[Shape] = shape_of(state.variant)
        self._run = run_kernel(state.variant, frozenset(without_features))
        # A vector access across cache lines costs double: align the arrays of the inner loops.
        for name in ("acc", "out"):
            setattr(state, name, _aligned(getattr(state, name)))
        self._inp_pairs, self._wgt_pairs = (
            _aligned(np.zeros(size, dtype=np.int16))
            for size in (
                self._shape.operand_depth * self._shape.inp_pairs,
                self._shape.wgt_depth * self._shape.wgt_pairs,
            )
        )
        self._program: Program | None = None
        self._table: IntArray = np.zeros(0, dtype=np.int64)

    def launch(
        self, program: Program, memory: ByteMemory, bases: Sequence[int], *, stale: bool = True
    ) -> IntArray:
        """Run to FINISH. Returns the tokens left over, shape (from, to).

        The size of `memory` is a multiple of 8 bytes. With `stale` the state may have been modified
        since the last launch. Raises DeviceError, naming unit and instruction.
        """
        machine = self._machine(program, memory, bases)
        ending = self._run(machine, False, stale)
        while ending == Ending.LEFT_OVER:
            instruction = program.instructions[machine.position]
            try:
                execute(self._state, instruction, memory, bases, program.region_words)
            except ProgramError as error:
                raise DeviceError(
                    f"instruction {machine.position} ({instruction.unit.name}): {error}"
                ) from error
            ending = self._run(machine, True, True)
        if ending == Ending.NO_TOKEN:
            unit = program.instructions[machine.position].unit
            raise DeviceError(
                f"every pop must find a token in program order; instruction {machine.position} "
                f"({unit.name}) finds none from {Unit(machine.missing).name}"
            )
        if ending == Ending.NO_FINISH:
            raise DeviceError("a program must end with FINISH; this one does not")
        return np.asarray(machine.tokens).reshape(UNITS, UNITS)

    def _machine(self, program: Program, memory: ByteMemory, bases: Sequence[int]) -> Machine:
        if self._program is not program:
            self._program, self._table = program, columns(program).ravel()
        state = self._state
        return Machine(
            position=0,
            missing=0,
            inp=state.inp.ravel(),
            wgt=state.wgt.ravel(),
            acc=state.acc.ravel(),
            out=state.out.ravel(),
            bias=state.par.bias.ravel(),
            multiplier=state.par.multiplier.ravel(),
            shift=state.par.shift.ravel(),
            tab=state.tab.ravel(),
            gemm_uops=state.uops[Unit.GEMM],
            alu_uops=state.uops[Unit.ALU],
            inp_pairs=self._inp_pairs,
            wgt_pairs=self._wgt_pairs,
            memory8=memory.view(np.int8),
            memory16=memory.view(np.int16),
            memory32=memory.view(np.int32),
            memory64=memory.view(np.int64),
            bases=np.array(bases, dtype=np.int64),
            region_words=np.array(program.region_words, dtype=np.int64),
            table=self._table,
            tokens=np.zeros(UNITS * UNITS, dtype=np.int64),
        )


def _aligned(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy aligned to a cache line."""
    line = 64
    memory = np.zeros(array.nbytes + line, dtype=np.uint8)
    skip = -memory.ctypes.data % line
    copy = memory[skip : skip + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
