"""Elementwise operators and moves: numpy = te = loop IR = the machine, on every kind of array."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from daedal.common.errors import ScheduleError
from daedal.isa.variant import Variant, load_variant
from tests.support.accelerator import micro_variant
from tests.support.accelerator_operators import Case, pool_case, size_for_window
from tests.support.vector_operators import (
    concat_case,
    elementwise_case,
    pad_case,
    resize_case,
    slice_case,
)

TINY = load_variant("tiny")
MICRO = micro_variant()
WIDE_IN = micro_variant(block_in=16, wgt_bytes=4096, inp_bytes=1024, depthwise_taps=0)
WIDE_OUT = micro_variant(
    block_out=16, wgt_bytes=4096, acc_bytes=4096, out_bytes=1024, par_bytes=512, depthwise_taps=0
)
SHIPPED = ["vta", "wide", "batch4", "int16"]

variants = st.sampled_from([TINY, MICRO, WIDE_IN, WIDE_OUT])
seeds = st.integers(0, 2**32 - 1)
extents = st.integers(1, 5)
OPERATORS = ["add", "mul", "leaky_relu"]

EXAMPLES = settings(max_examples=8)


@EXAMPLES
@given(
    variants,
    st.sampled_from(OPERATORS),
    st.tuples(st.integers(1, 2), st.integers(1, 3), extents, extents),
    st.tuples(st.booleans(), st.booleans()),
    seeds,
)
def test_elementwise(variant, op, shape, repeats, seed):
    other = (*shape[:2], *(1 if r else n for r, n in zip(repeats, shape[2:], strict=True)))
    elementwise_case(variant, np.random.default_rng(seed), op, shape, other).check()


@EXAMPLES
@given(st.data(), variants, st.booleans(), seeds)
def test_slice(data, variant, load_columns, seed):
    size = data.draw(st.tuples(st.integers(1, 2), extents, extents))
    steps = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    begin = data.draw(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)))
    rest = data.draw(st.tuples(*[st.integers(0, 1)] * 3))
    spans = [size[0], *((n - 1) * step + 1 for n, step in zip(size[1:], steps, strict=True))]
    shape = (2, *(sum(parts) for parts in zip(begin, spans, rest, strict=True)))
    rng = np.random.default_rng(seed)
    slice_case(variant, rng, shape, begin, size, steps, load_columns).check()


@EXAMPLES
@given(
    variants,
    st.tuples(st.integers(1, 2), st.integers(1, 2), extents, extents),
    st.tuples(*[st.integers(0, 2)] * 3),
    st.tuples(*[st.integers(0, 2)] * 3),
    seeds,
)
def test_pad(variant, shape, before, after, seed):
    pad_case(variant, np.random.default_rng(seed), shape, before, after).check()


@EXAMPLES
@given(
    variants,
    st.tuples(st.integers(1, 2), st.integers(1, 2), extents, extents),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    seeds,
)
def test_resize(variant, shape, factors, seed):
    resize_case(variant, np.random.default_rng(seed), shape, factors).check()


@EXAMPLES
@given(
    variants,
    st.tuples(st.integers(1, 2), extents, extents),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    seeds,
)
def test_concat(variant, shape, blocks, seed):
    concat_case(variant, np.random.default_rng(seed), shape, blocks).check()


def cases(variant: Variant, rng: np.random.Generator) -> dict[str, Case]:
    """One of each, with several tiles in every dimension."""
    shape = (2, 3, 9, 11)
    return {
        "add": elementwise_case(variant, rng, "add", shape, shape),
        "add row": elementwise_case(variant, rng, "add", shape, (2, 3, 1, 11)),
        "mul": elementwise_case(variant, rng, "mul", shape, shape),
        "mul channel": elementwise_case(variant, rng, "mul", shape, (2, 3, 1, 1)),
        "leaky_relu": elementwise_case(variant, rng, "leaky_relu", shape, shape),
        "slice": slice_case(variant, rng, shape, (1, 2, 1), (2, 3, 5), (3, 2), True),
        "slice columns": slice_case(variant, rng, shape, (0, 0, 0), (3, 4, 3), (2, 4), False),
        "pad": pad_case(variant, rng, shape, (1, 2, 0), (0, 1, 70)),
        "resize": resize_case(variant, rng, (2, 3, 7, 9), (2, 3)),
        "concat": concat_case(variant, rng, (2, 9, 11), (2, 1, 3)),
        "max pool": pool_case(variant, rng, shape, (3, 2), (2, 1), (1, 0, 1, 1)),
        "max pool, stride 1": pool_case(variant, rng, shape, (5, 4), pads=(2, 1, 2, 2)),
        "avg pool": pool_case(variant, rng, shape, (4, 5), pads=(1, 2, 2, 2), rows=[[0] * 11] * 9),
        "avg pool, zeros": pool_case(
            variant, rng, shape, (5, 3), pads=(2, 1, 2, 1), rows=[[0] * 11] * 9, pad_value=0
        ),
        "max pool, same values": pool_case(
            variant, rng, shape, (3, 3), (2, 2), (1, 1, 1, 1), keeps_values=True
        ),
        "global": pool_case(variant, rng, shape, (9, 11), rows=[[0]], large=True),
    }


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_variants(name, rng):
    for case in cases(load_variant(name), rng).values():
        case.check(interpret=False)


@pytest.mark.parametrize("variant", [TINY, MICRO], ids=["tiny", "micro"])
def test_several_tiles(variant, rng):
    for case in cases(variant, rng).values():
        case.check(interpret=False)


@EXAMPLES
@given(
    variants,
    st.tuples(st.just(1), st.integers(1, 2), st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(*[st.integers(0, 1)] * 4),
    st.sampled_from([None, 0, 5]),
    seeds,
)
def test_pools(variant, shape, kernel, strides, pads, average, seed):
    """`average` is the pad value of an average; None stands for a maximum."""
    # `MICRO` has no room for windows of 6 x 6 with their columns; other tests have large ones.
    assume(variant is not MICRO or kernel != (6, 6))
    height, width = size_for_window(shape[2:], kernel, pads)
    oh = (height + pads[0] + pads[2] - kernel[0]) // strides[0] + 1
    ow = (width + pads[1] + pads[3] - kernel[1]) // strides[1] + 1
    rng = np.random.default_rng(seed)
    rows = None if average is None else rng.integers(0, 3, (oh, ow)).tolist()
    size = (*shape[:2], height, width)
    case = pool_case(variant, rng, size, kernel, strides, pads, rows, pad_value=average or 0)
    case.check()


@pytest.mark.parametrize("value", [-128, 127])
@pytest.mark.parametrize("rows", [None, [[0] * 13] * 11])
def test_pools_of_extreme_values(value, rows, rng):
    case = pool_case(TINY, rng, (1, 2, 11, 13), (7, 5), (1, 1), (3, 2, 3, 2), rows)
    case.arrays["x"][:] = value
    case.check(interpret=False)


@EXAMPLES
@given(
    variants,
    st.tuples(st.just(1), st.integers(1, 2), st.integers(1, 5), st.integers(1, 5)),
    st.tuples(*[st.integers(0, 1)] * 4),
    st.booleans(),
    seeds,
)
def test_global_pools(variant, shape, pads, average, seed):
    kernel = (shape[2] + pads[0] + pads[2], shape[3] + pads[1] + pads[3])
    rows = [[0]] if average else None
    rng = np.random.default_rng(seed)
    pool_case(variant, rng, shape, kernel, pads=pads, rows=rows, large=True).check()


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize(
    ("shape", "kernel", "strides"),
    [
        ((1, 3, 31, 29), (31, 29), (1, 1)),
        ((1, 1, 2, 500), (2, 500), (1, 1)),
        ((2, 2, 13, 18), (12, 16), (1, 2)),
    ],
)
def test_windows_larger_than_the_accumulators(shape, kernel, strides, average, rng):
    """Row by row, or part by part of a row, in steps that fit."""
    oh, ow = ((n - k) // s + 1 for n, k, s in zip(shape[2:], kernel, strides, strict=True))
    rows = [[0] * ow] * oh if average else None
    case = pool_case(MICRO, rng, shape, kernel, strides, rows=rows, large=True)
    case.check(interpret=False)


def test_a_window_that_fits_in_no_step_is_refused(rng):
    variant = WIDE_IN.replace("small", acc_bytes=128)
    with pytest.raises(ScheduleError) as error:
        pool_case(variant, rng, (1, 1, 3, 3), (3, 3), large=True)
    assert str(error.value) == (
        "a vector, a column and the result of 'pool' must fit scratchpad 'acc' of 128 bytes, and "
        "take 192; use a variant with a larger one"
    )
