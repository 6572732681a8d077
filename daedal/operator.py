"""`build_operator`: one scheduled tensor expression as a program, and running it.

For authors of operators and schedules; networks go through `daedal.compile`.

>>> operator = daedal.build_operator(schedule, variant, {"w": weights, "params": params})
>>> result = operator.run({"x": x}, device="timing")
>>> result.profile.cycles
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ProgramError, ScheduleError
from daedal.compiler.codegen.instances import ROW_DIMS
from daedal.compiler.layers.program_builder import ProgramBuilder
from daedal.compiler.link.constants import parameter_bytes, weight_bytes
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.expr import Buffer
from daedal.devices import open_device
from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.isa.protocols import Device
from daedal.isa.tensor import TensorSpec
from daedal.isa.variant import Variant
from daedal.runtime.driver import LoadedProgram

__all__ = ["Operator", "OperatorResult", "build_operator"]

Arrays = Mapping[str, npt.NDArray[Any]]

_PARAMETER_FIELDS = 3
"""Bias, multiplier and shift: no row of weights is that short."""


@dataclass(frozen=True)
class OperatorResult:
    """Outputs by name, in the shapes of the tensor expression, and what the device counted."""

    outputs: dict[str, npt.NDArray[np.int64]]
    profile: Profile


@dataclass(frozen=True)
class Operator:
    """A program that computes one function.

    Parameters
    ----------
    shapes : of its inputs and outputs, as the function has them.
    """

    program: Program
    shapes: dict[str, tuple[int, ...]]

    def run(self, inputs: Arrays, device: str | Device = "functional") -> OperatorResult:
        """Run on a device, by name or open; `inputs` in the shapes of the function.

        Raises ProgramError for inputs that do not fit, DeviceError where the machine fails.
        """
        variant = self.program.variant
        opened = open_device(device, variant) if isinstance(device, str) else device
        for name, array in inputs.items():
            if name in self.shapes and array.shape != self.shapes[name]:
                raise ProgramError(
                    f"input {name!r} must have shape {self.shapes[name]}, not {array.shape}"
                )
        loaded = LoadedProgram.place(self.program, opened)
        tensors, profile = loaded.run({name: _as_map(array) for name, array in inputs.items()})
        outputs = {name: _as_rows(array, self.shapes[name]) for name, array in tensors.items()}
        return OperatorResult(outputs, profile)


def build_operator(
    schedule: Schedule, variant: Variant, constants: Arrays, *, renaming: bool = True
) -> Operator:
    """Emit, link and verify the function of `schedule`.

    Parameters
    ----------
    schedule : every block of its function is tensorized with the accelerator's intrinsics.
    constants : weights (..., block_out, block_in), or (..., taps, block_in) of a depthwise mode,
        and requantization parameters (..., block_out, 3) by name; the other parameters are rows
        (..., batch, lanes) and are given at each run.
    renaming : as in `daedal.compiler.link.link`.

    Raises
    ------
    ScheduleError
        The function cannot be emitted or does not fit, or a constant has another shape.
    """
    func = schedule.func
    known = {buffer.name: buffer.shape for buffer in func.params}
    for name, array in constants.items():
        if known.get(name) != array.shape:
            raise ScheduleError(
                f"a constant must be a parameter of {func.name!r} in its shape, which "
                f"{name!r} {array.shape} is not; the parameters are "
                f"{', '.join(f'{item!r} {shape}' for item, shape in known.items())}"
            )
    program = ProgramBuilder(variant, renaming).build(
        schedule,
        constants={name: _constant(variant, array) for name, array in constants.items()},
        inputs=[_spec(item, variant) for item in func.inputs if item.name not in constants],
        outputs=[_spec(item, variant) for item in func.outputs],
    )
    return Operator(program, known)


def _constant(variant: Variant, array: npt.NDArray[Any]) -> bytes:
    if array.shape[-1] == _PARAMETER_FIELDS:
        return parameter_bytes(variant, array)
    return weight_bytes(variant, array)


def _spec(buffer: Buffer, variant: Variant) -> TensorSpec:
    """A tensor's rows in sequence, as a map with one block of channels."""
    *outer, batch, lanes = buffer.shape
    bits = variant.array.input_bits
    return TensorSpec(buffer.name, 0, 0, (batch, lanes, math.prod(outer), 1), bits, batch, lanes)


def _as_map(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(..., batch, lanes) -> (batch, lanes, rows, 1)."""
    rows = array.reshape(-1, *array.shape[-ROW_DIMS:])
    return rows.transpose(1, 2, 0)[..., None]


def _as_rows(array: npt.NDArray[np.int64], shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """The inverse of `_as_map`, to `shape`."""
    return array[..., 0].transpose(2, 0, 1).reshape(shape)
