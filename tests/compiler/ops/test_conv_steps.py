"""Convolutions that gather rows of the map, and those whose windows are taken in parts."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daedal.common.errors import ScheduleError
from daedal.compiler.ops.accelerator.conv.cost import ConvTile
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.conv.space import best_tile, useful_gathers
from daedal.compiler.ops.conv2d import Gather
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory, Unit
from daedal.isa.variant import load_variant
from tests.support.accelerator import micro_variant
from tests.support.accelerator_operators import conv_case, size_for_window

TINY = load_variant("tiny")
MICRO = micro_variant()


@settings(max_examples=15)
@given(
    st.sampled_from([TINY, MICRO]),
    st.sampled_from(list(Gather)),
    st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.integers(1, 4), st.integers(1, 3)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(*[st.integers(0, 3)] * 4),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from([0, 5]),
    st.integers(0, 2**32 - 1),
)
def test_gathered(variant, gather, shape, kernel, strides, pads, dilations, pad_value, seed):
    case = conv_case(
        variant,
        np.random.default_rng(seed),
        (*shape[:2], *size_for_window(shape[2:], kernel, pads, dilations)),
        2,
        kernel,
        strides,
        pads,
        dilations,
        pad_value=pad_value,
        gather=gather,
    )
    case.check()


@settings(max_examples=15)
@given(
    st.sampled_from([TINY, MICRO]),
    st.sampled_from(list(Gather)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(1, 3), st.integers(1, 2)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.booleans(),
    st.sampled_from([0, 5]),
    st.integers(0, 2**32 - 1),
)
def test_parts_of_windows(variant, gather, kernel, taps, tile, strides, group, pad_value, seed):
    """Steps over rows and columns of the window, also of sizes that do not divide it."""
    taps = (min(taps[0], kernel[0]), min(taps[1], kernel[1]))
    height, width = tile
    # Both blocks of outputs, with both of inputs, stay on chip where they fit.
    keeps = group and 4 * math.prod(kernel) <= scratchpad(variant, Memory.WGT).depth_rows
    case = conv_case(
        variant,
        np.random.default_rng(seed),
        (1, 2, 5, 6),
        2,
        kernel,
        strides,
        (2, 1, 2, 1),
        (2, 1),
        pad_value=pad_value,
        tile=ConvTile(height, width, 1, 1, 2 if keeps else 0, False, taps=taps),
        gather=gather,
    )
    case.check()


def test_a_tile_loads_only_the_rows_that_its_windows_read(rng):
    """Of a window at dilation 5, three rows for each row of outputs; padding is not read."""
    case = conv_case(
        MICRO,
        rng,
        (1, 1, 16, 4),
        1,
        (3, 1),
        (1, 1),
        (5, 0, 5, 0),
        (5, 1),
        pad_value=0,
        tile=ConvTile(1, 4, 1, 1, 1, False),
        gather=Gather.ROWS,
    )
    program = case.check().program
    loads = [
        item
        for item in program.instructions
        if item.unit is Unit.LOAD and item.values.get("memory", LoadMemory.INP) == LoadMemory.INP
    ]
    assert sum(item.blocks * item.rows * item.cols for item in loads) == sum(
        4 * (0 <= output + 5 * tap - 5 < 16) for output in range(16) for tap in range(3)
    )


@pytest.mark.parametrize(
    ("variant", "shape", "kernel", "strides", "dilations"),
    [
        (TINY, (1, 1, 26, 24), (24, 24), (1, 1), (1, 1)),
        (TINY, (1, 2, 49, 50), (3, 3), (1, 1), (24, 24)),
        (TINY, (1, 1, 1, 520), (1, 519), (1, 1), (1, 1)),
        (MICRO, (1, 1, 16, 32), (16, 16), (16, 16), (1, 1)),
    ],
)
def test_windows_larger_than_the_scratchpads(variant, shape, kernel, strides, dilations, rng):
    """Neither the rows of such a window nor its weights have to fit at once."""
    case = conv_case(variant, rng, shape, 1, kernel, strides, dilations=dilations)
    case.check(interpret=False)


def test_the_cheaper_copy_is_chosen():
    """Rows far apart are gathered; rows that windows share are not."""
    vta = load_variant("vta")
    base = ConvShape(1, 4, 8, 60, 60, (3, 3), (1, 1), (1, 1), size=(60, 60))

    def chosen(shape: ConvShape) -> Gather:
        shapes = [replace(shape, gather=item) for item in useful_gathers(shape)]
        gather, _ = best_tile(shapes, vta)
        return gather

    assert chosen(base) is Gather.NOTHING
    assert chosen(replace(base, kernel=(1, 1), strides=(2, 2))) is Gather.ROWS
    patches = ConvShape(1, 4, 1, 4, 4, (64, 64), (64, 64), (1, 1), size=(256, 256))
    assert chosen(patches) is Gather.ROWS


def test_parameters_beyond_the_scratchpad_are_refused():
    """A class of outputs has parameters of its own, and all are on chip at once."""
    shape = ConvShape(1, 1, 1, 9, 9, (3, 3), (1, 1), (1, 1), classes=81)
    with pytest.raises(ScheduleError, match=r"its 81 parameter rows 'par' \(\d+ bytes\); use a"):
        best_tile([shape], TINY)
