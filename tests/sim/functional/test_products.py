"""GEMM's machine code for this processor and for lesser ones against `isa.semantics`."""

import copy
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.isa.instruction import Instruction
from daedal.isa.microcode import encode_uops
from daedal.isa.numerics import integer_range
from daedal.isa.program import Program
from daedal.isa.random_programs import random_program
from daedal.isa.semantics import State, execute
from daedal.isa.table import GemmMode, Opcode, Unit
from daedal.isa.variant import Variant, load_variant
from daedal.native.cpu import Cpu, host_cpu
from daedal.native.kernel import Kernel, kernel
from daedal.native.types import i64
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.functional.engine import Engine
from daedal.sim.functional.gemm import apart, gemm
from daedal.sim.functional.machine import Machine
from daedal.sim.functional.product_text import ROWS
from daedal.sim.functional.shape import shape_of
from daedal.sim.functional.transfers import load, pair_up
from tests.support.machine_states import arrays, fill

TINY = load_variant("tiny")

VARIANTS = {
    "int8": TINY,
    "int4": TINY.replace(
        "int4",
        block_in=16,
        block_out=16,
        input_bits=4,
        weight_bits=4,
        output_bits=4,
        depthwise_taps=0,
    ),
    "int16": TINY.replace(
        "int16",
        input_bits=16,
        weight_bits=16,
        output_bits=16,
        accumulator_bits=48,
        depthwise_taps=0,
    ),
    "mixed": TINY.replace("mixed", block_in=16, block_out=32, depthwise_taps=0),
}

LEVELS = {
    "this processor": (),
    "no VNNI": ("avx512vnni", "avxvnni"),
    "AVX2": ("avx512f", "avxvnni"),
    "SSE4.2": ("avx",),
    "SSE2": ("sse3",),
}
"""Features to do without; the instructions of all above them go with them."""


@kernel
def multiply(m: Machine, at: i64) -> bool:
    """One GEMM on a state that somebody else has written."""
    pair_up(m)
    return gemm(m, at)


def kernel_of(variant: Variant, level: str = "this processor") -> Kernel:
    return multiply.specialized({"Shape": shape_of(variant)}, LEVELS[level])


def run_both(state: State, instruction: Instruction, run: Kernel) -> tuple[State, State]:
    """The state after the machine code, and after the definition."""
    expected = copy.deepcopy(state)
    engine = Engine(state)
    memory = np.zeros(8, dtype=np.uint8)
    program = Program(state.variant, (instruction, Instruction(Opcode.FINISH)))
    machine = engine._machine(program, memory, [0, 0, 0, 0])
    assert run(machine, 0)
    execute(expected, instruction, memory, [0] * 4, [0] * 4)
    return state, expected


def assert_equal(states: tuple[State, State]) -> None:
    found, expected = map(arrays, states)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def set_uops(state: State, **columns: list[int]) -> None:
    words = encode_uops(state.variant, Unit.GEMM, columns)
    state.uops[Unit.GEMM][: len(words)] = words


WEIGHTS_FIRST = {"extent0": 2, "extent1": 11, "extent2": 3, "acc_factor1": 1, "inp_factor1": 1}
"""Eleven rows meet the same weights: not a multiple of those that are multiplied at once."""
FACTORS = {"acc_factor0": 11, "wgt_factor0": 3, "inp_factor2": 1, "wgt_factor2": 1}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", VARIANTS)
def test_products_are_exact_whatever_the_processor_has(
    name: str, level: str, rng: np.random.Generator
) -> None:
    """Extremes meet extremes, and accumulators wrap: at every corner, and anywhere."""
    variant = VARIANTS[name]
    run = kernel_of(variant, level)
    bits = variant.array
    corners = [integer_range(width) for width in (bits.input_bits, bits.weight_bits)]
    for overwrite in (0, 1):
        instruction = Instruction.of(
            Opcode.GEMM, overwrite=overwrite, uop_end=2, **WEIGHTS_FIRST, **FACTORS
        )
        for values in (None, *itertools.product(*corners)):
            state = State(variant)
            if values is None:
                fill(state, rng)
            else:
                state.inp[...], state.wgt[...] = values
                same_sign = (values[0] < 0) == (values[1] < 0)
                state.acc[...] = integer_range(bits.accumulator_bits)[int(same_sign)]
            set_uops(state, acc=[0, 0], inp=[0, 4], wgt=[0, 6], first=[1, 0])
            assert_equal(run_both(state, instruction, run))


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "this processor"])
@pytest.mark.parametrize("mode", ["DEPTHWISE", "DEPTHWISE3"])
def test_depthwise_products(level: str, mode: str, rng: np.random.Generator) -> None:
    run = kernel_of(TINY, level)
    for corner in (-128, None):
        state = State(TINY)
        fill(state, rng)
        if corner is not None:
            state.inp[...] = state.wgt[...] = corner
        set_uops(state, acc=[0, 0], inp=[0, 4], wgt=[0, 1], first=[1, 0])
        instruction = Instruction.of(Opcode.GEMM, mode=GemmMode[mode], uop_end=2, **WEIGHTS_FIRST)
        assert_equal(run_both(state, instruction, run))


small = st.integers(0, 6)


@given(
    overwrite=st.booleans(),
    extents=st.lists(st.integers(1, 6), min_size=3, max_size=3),
    acc=st.lists(st.sampled_from([0, 0, 1, 1, 2, 3, 5, 6, 7, 12, 16]), min_size=3, max_size=3),
    inp=st.lists(small, min_size=3, max_size=3),
    wgt=st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=3, max_size=3),
    uops=st.lists(st.tuples(small, small, small, st.integers(0, 1)), min_size=1, max_size=4),
    seed=st.integers(0, 1 << 32),
)
def test_any_order_of_the_loops_gives_the_same_sums(
    overwrite: bool,
    extents: list[int],
    acc: list[int],
    inp: list[int],
    wgt: list[int],
    uops: list[tuple[int, int, int, int]],
    seed: int,
) -> None:
    """Rows meet in many ways, and overwriting makes their order count."""
    state = State(TINY)
    fill(state, np.random.default_rng(seed))
    names = ("acc", "inp", "wgt", "first")
    set_uops(state, **{name: [uop[k] for uop in uops] for k, name in enumerate(names)})
    fields = {"overwrite": int(overwrite), "uop_end": len(uops)}
    for level in range(3):
        fields[f"extent{level}"] = extents[level]
        for name, factors in (("acc", acc), ("inp", inp), ("wgt", wgt)):
            fields[f"{name}_factor{level}"] = factors[level]
    assert_equal(run_both(state, Instruction.of(Opcode.GEMM, **fields), kernel_of(TINY)))


def test_loops_that_are_apart_never_meet() -> None:
    """Every small case against all rows, a bit each."""
    agreed = 0
    for f0, e0, f1, e1 in itertools.product(range(9), range(1, 4), range(9), range(1, 4)):
        others = 0
        for k0, k1 in itertools.product(range(e0), range(e1)):
            others |= 1 << k0 * f0 + k1 * f1
        for spread in range(4):
            rows = 0
            for offset in range(spread + 1):
                rows |= others << offset
            for step, count in itertools.product(range(1, 4), range(2, 4)):
                if apart(step, count, spread, f0, e0, f1, e1):
                    meet = any(rows & rows << k * step for k in range(1, count))
                    assert not meet, (step, count, spread, f0, e0, f1, e1)
                    agreed += 1
    assert agreed > 1000
    # As convolutions have it: a loop over blocks of outputs, one over columns, one over taps.
    assert apart(4, 28, 3, 112, 4, 0, 3)
    assert apart(1, 56, 0, 56, 3, 0, 3)


def test_a_whole_program_without_vnni() -> None:
    case = random_program(TINY, 3, length=40)
    memories = []
    for options in ({"without_features": LEVELS["no VNNI"]}, {"kernels": False}):
        device = FunctionalDevice(TINY, **options)  # type: ignore[arg-type]
        bases = [device.alloc(size) for size in case.program.region_bytes]
        device.write(bases[0], case.program.constants)
        for base, content in case.contents.items():
            device.write(bases[base], content)
        device.launch(case.program, bases)
        memories.append(device.read(0, 1 << 16))
    assert memories[0] == memories[1]


@pytest.mark.parametrize(
    ("processor", "register"),
    [
        ("cascadelake", "%zmm"),
        ("skylake-avx512", "%zmm"),
        ("alderlake", "%ymm"),
        ("haswell", "%ymm"),
    ],
)
def test_every_processor_multiplies_pairs(processor: str, register: str) -> None:
    """Processors that nobody has here: two products and their sum are one instruction."""
    cpu = Cpu(host_cpu().triple, processor, frozenset())
    shape = shape_of(load_variant("vta"))
    lines = gemm.specialized({"Shape": shape}).assembly(cpu=cpu).splitlines()
    pairs = [line for line in lines if "pmaddwd" in line or "pdpwssd" in line]
    assert len(pairs) >= 8 * (ROWS + 1) and all(register in line for line in pairs), pairs


@pytest.mark.parametrize("processor", ["skylake-avx512", "haswell", "znver4"])
def test_weights_are_not_gathered(processor: str) -> None:
    """LLVM makes gathers of plain loops, which cost tens of cycles on guarded processors."""
    cpu = Cpu(host_cpu().triple, processor, frozenset())
    text = load.specialized({"Shape": shape_of(load_variant("vta"))}).assembly(cpu=cpu)
    assert "gather" not in text and "scatter" not in text
