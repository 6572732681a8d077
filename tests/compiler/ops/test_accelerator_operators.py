"""Every operator: te = loop IR before and after its schedule = the machine, over small shapes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daedal.compiler.ops.requantize import Bounds
from daedal.isa.table import Opcode
from daedal.isa.variant import load_variant
from daedal.runtime.driver import LoadedProgram
from daedal.sim.timing.device import timing_with_values
from tests.support.accelerator import micro_variant
from tests.support.accelerator_operators import (
    add_case,
    conv_case,
    pool_case,
    requantize_case,
    size_for_window,
)

TINY = load_variant("tiny")
MICRO = micro_variant()

WIDE_IN = micro_variant(block_in=16, wgt_bytes=4096, inp_bytes=1024, depthwise_taps=0)
WIDE_OUT = micro_variant(
    block_out=16, wgt_bytes=4096, acc_bytes=4096, out_bytes=1024, par_bytes=512, depthwise_taps=0
)

variants = st.sampled_from([TINY, MICRO, WIDE_IN, WIDE_OUT])
seeds = st.integers(0, 2**32 - 1)
pads = st.tuples(*[st.integers(0, 2)] * 4)


@settings(max_examples=12)
@given(
    variants,
    st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 4), st.integers(1, 4)),
    st.integers(1, 2),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    pads,
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    seeds,
)
def test_conv2d(variant, shape, out_blocks, kernel, strides, pads, dilations, seed):
    rng = np.random.default_rng(seed)
    shape = (*shape[:2], *size_for_window(shape[2:], kernel, pads, dilations))
    case = conv_case(variant, rng, shape, out_blocks, kernel, strides, pads, dilations)
    case.check()


@settings(max_examples=8)
@given(
    variants,
    st.tuples(st.integers(1, 2), st.integers(2, 3)),
    st.tuples(st.integers(1, 2), st.integers(1, 4), st.integers(1, 4)),
    st.integers(1, 2),
    st.integers(1, 2),
    st.integers(1, 2),
    seeds,
)
def test_grouped_conv2d(variant, images_groups, shape, out_blocks, kernel, stride, seed):
    """Dense convolutions side by side, each with weights and parameters of its own."""
    images, groups = images_groups
    blocks, height, width = shape
    case = conv_case(
        variant,
        np.random.default_rng(seed),
        (images * groups, blocks, height, width),
        out_blocks,
        (kernel, kernel),
        (stride, 1),
        (0, 1, 1, 0) if kernel == 2 else (0, 0, 0, 0),
        groups=groups,
    )
    case.check()


@pytest.mark.parametrize("name", ["vta", "wide", "int16", "batch4"])
def test_groups_on_shipped_variants(name, rng):
    variant = load_variant(name)
    pads = (1, 0, 1, 1)
    case = conv_case(variant, rng, (6, 2, 9, 7), 1, (3, 2), (2, 1), pads, groups=3)
    case.check(interpret=False)


@pytest.mark.parametrize(
    ("shape", "out_blocks", "kernel", "strides", "pads"),
    [
        ((1, 1, 1, 1), 1, (1, 1), (1, 1), (0, 0, 0, 0)),
        ((1, 5, 17, 15), 3, (3, 3), (2, 2), (0, 1, 1, 0)),
        ((2, 3, 7, 9), 2, (3, 2), (1, 2), (1, 0, 2, 1)),
        ((1, 7, 7, 29), 9, (5, 5), (2, 1), (2, 2, 2, 2)),
        ((1, 1, 23, 23), 2, (7, 7), (2, 2), (3, 3, 3, 3)),
        ((1, 33, 1, 1), 5, (1, 1), (1, 1), (0, 0, 0, 0)),
    ],
)
def test_larger_convolutions(rng, shape, out_blocks, kernel, strides, pads):
    """Without the interpreter of the loop IR, which would take minutes."""
    conv_case(TINY, rng, shape, out_blocks, kernel, strides, pads).check(interpret=False)


def test_a_convolution_with_batches_in_the_array(rng):
    variant = TINY.replace("batch2", batch=2)
    conv_case(variant, rng, (2, 2, 5, 4), 2, (3, 3), (1, 1), (1, 1, 1, 1)).check(interpret=False)


@pytest.mark.parametrize(
    ("variant", "bounds"),
    [
        (
            TINY.replace("int4", block_in=16, block_out=16, input_bits=4, output_bits=4),
            Bounds(1, -7, 6),
        ),
        (
            TINY.replace("int16", input_bits=16, output_bits=16, accumulator_bits=48),
            Bounds(100, -20_000, 32_767),
        ),
    ],
    ids=["int4", "int16"],
)
def test_other_precisions(variant, bounds, rng):
    case = conv_case(variant, rng, (1, 2, 5, 4), 2, (3, 3), (1, 1), (1, 1, 1, 1), bounds=bounds)
    case.check(interpret=False)


@settings(max_examples=8)
@given(
    variants,
    st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 5), st.integers(1, 7)),
    seeds,
)
def test_add_and_requantize(variant, shape, seed):
    rng = np.random.default_rng(seed)
    add_case(variant, rng, shape).check()
    requantize_case(variant, rng, shape).check()


@settings(max_examples=8)
@given(
    variants,
    st.tuples(st.just(1), st.integers(1, 2), st.integers(1, 5), st.integers(1, 5)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.tuples(*[st.integers(0, 1)] * 4),
    st.booleans(),
    seeds,
)
def test_pooling(variant, shape, kernel, strides, pads, average, seed):
    top, left, bottom, right = pads
    height, width = size_for_window(shape[2:], kernel, pads)
    oh = (height + top + bottom - kernel[0]) // strides[0] + 1
    ow = (width + left + right - kernel[1]) // strides[1] + 1
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 3, (oh, ow)).tolist() if average else None
    pool_case(variant, rng, (*shape[:2], height, width), kernel, strides, pads, rows).check()


def test_a_global_average_reduces_its_window_in_place(rng):
    """Five taps of each dimension: two pairs, the pairs, the fifth; one instruction requantizes.

    Rows that add up in one accumulator take fewer instructions and more cycles: each addition waits
    for the last one's result.
    """
    program = pool_case(TINY, rng, (1, 2, 5, 5), (5, 5), rows=[[0]]).check().program
    first, *others, _ = [n for n, x in enumerate(program.instructions) if x.opcode is Opcode.ALU]
    assert len(others) == 5
    kept = [x for n, x in enumerate(program.instructions) if n not in others]
    # The other 24 rows of both channel blocks, whose maps begin 25 rows apart.
    taps = {"src_base": 1, "extent0": 1, "extent1": 24, "src_factor1": 1, "dst_factor1": 0}
    blocks = {"extent2": 2, "src_factor2": 25, "dst_factor2": 25}
    kept[first] = kept[first].replace(src_factor0=0, dst_factor0=0, **taps, **blocks)
    serial = replace(program, instructions=tuple(kept))
    maps = rng.integers(-128, 128, (1, 2 * TINY.block, 5, 5))
    device = timing_with_values(TINY)
    runs = [LoadedProgram.place(item, device).run({"x": maps}) for item in (program, serial)]
    (found, profile), (expected, serial_profile) = runs
    np.testing.assert_array_equal(found["y"], expected["y"])
    assert 1.5 * profile.cycles < serial_profile.cycles
