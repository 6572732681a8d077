"""Runs one operator at every level of the compiler, for the tests of ops, codegen and link."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from daedal.compiler import te
from daedal.compiler.codegen.accelerator import emit_segment
from daedal.compiler.codegen.segment import Segment
from daedal.compiler.link import LinkedProgram, link
from daedal.compiler.link.constants import parameter_bytes, weight_bytes
from daedal.compiler.ops.requantize import Bounds
from daedal.compiler.tir import interpreter
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.elements import to_memory
from daedal.isa.program import Program
from daedal.isa.protocols import Device
from daedal.isa.tensor import TensorSpec
from daedal.isa.variant import Variant, load_variant
from daedal.isa.verifier import verify
from daedal.runtime.driver import LoadedProgram
from daedal.sim.functional.device import FunctionalDevice

BOUNDS = Bounds(zero_point=3, low=-100, high=90)

Arrays = Mapping[str, np.ndarray]


def micro_variant(**changes: int) -> Variant:
    """`tiny` with scratchpads so small that maps of a few pixels need several tiles."""
    small = {
        "inp_bytes": 512,
        "wgt_bytes": 2048,
        "acc_bytes": 2048,
        "out_bytes": 512,
        "par_bytes": 256,
        "gemm_uop_bytes": 512,
        "alu_uop_bytes": 512,
    }
    return load_variant("tiny").replace("micro", **{**small, **changes})


def random_params(rng: np.random.Generator, rows: int, block: int) -> np.ndarray:
    """Parameters that spread results over the range of int8."""
    bias = rng.integers(-3000, 3000, (rows, block))
    multiplier = rng.integers(1 << 16, 1 << 17, (rows, block))
    shift = rng.integers(22, 26, (rows, block))
    return np.stack([bias, multiplier, shift], axis=-1)


def random_bytes(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Any int8 values."""
    return rng.integers(-128, 128, shape).astype(np.int8)


@dataclass
class Compiled:
    """An operator on its way to the machine."""

    segment: Segment
    linked: LinkedProgram
    result: np.ndarray

    @property
    def program(self) -> Program:
        return self.linked.program


def spec_of(name: str, shape: tuple[int, ...], bits: int = 8) -> TensorSpec:
    """The program's view of a blocked array (NB, CB, H, W, U, batch, lanes)."""
    nb, cb, h, w, parts, batch, lanes = shape
    block = parts * lanes
    return TensorSpec(name, 0, 0, (nb * batch, cb * block, h, w), bits, batch, block)


def link_operator(
    variant: Variant, scheduled: PrimFunc, arrays: Arrays, renaming: bool = True
) -> tuple[Segment, LinkedProgram]:
    """The program of one function."""
    segment = emit_segment(scheduled, variant)
    constants, inputs = {}, []
    for name, array in arrays.items():
        if name == "w":
            constants[name] = weight_bytes(variant, array)
        elif name == "params":
            constants[name] = parameter_bytes(variant, array)
        else:
            inputs.append(spec_of(name, array.shape, variant.array.input_bits))
    output = spec_of("y", scheduled.outputs[0].shape, variant.array.output_bits)
    linked = link(
        [segment],
        variant,
        constants=constants,
        inputs=inputs,
        outputs=[output],
        renaming=renaming,
    )
    return segment, linked


def check_operator(
    variant: Variant,
    y: te.Tensor,
    original: PrimFunc,
    scheduled: PrimFunc,
    arrays: Arrays,
    interpret: bool = True,
    renaming: bool = True,
) -> Compiled:
    """te = loop IR before and after the schedule = the verified program on the simulator."""
    (expected,) = te.evaluate_tensors([y], arrays)
    if interpret:
        for func in (original, scheduled):
            np.testing.assert_array_equal(interpreter.run(func, arrays)["y"], expected)
    segment, linked = link_operator(variant, scheduled, arrays, renaming)
    verify(linked.program)
    result = run_blocked(linked.program, arrays)["y"]
    np.testing.assert_array_equal(result, memory_of(expected, variant))
    return Compiled(segment, linked, result)


def memory_of(array: np.ndarray, variant: Variant) -> np.ndarray:
    """A blocked array as bytes of memory."""
    rows = array.astype(np.int64).reshape(-1, array.shape[-2] * array.shape[-1])
    return to_memory(rows, variant.array.input_bits).reshape(-1)


def run_blocked(
    program: Program, arrays: Arrays, device: Device | None = None
) -> dict[str, np.ndarray]:
    """Run on `device` or the functional one; blocked arrays in, bytes of the outputs out."""
    device = device or FunctionalDevice(program.variant)
    loaded = LoadedProgram.place(program, device)
    for spec in program.inputs:
        data = memory_of(arrays[spec.name], program.variant)
        loaded.write_region(spec.base, data.tobytes(), spec.offset_bytes)
    device.launch(program, loaded.bases)
    return {
        spec.name: np.frombuffer(
            device.read(loaded.bases[spec.base] + spec.offset_bytes, spec.size_bytes), np.uint8
        )
        for spec in program.outputs
    }
