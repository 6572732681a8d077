"""Products with padding zeros are left out, and the result stays the same."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daedal.compiler import te
from daedal.compiler.codegen.forms import Form, RegionForm
from daedal.compiler.codegen.padding import Interior, interiors, without_padding
from daedal.compiler.tir.expr import Buffer, IntImm, Var
from daedal.compiler.tir.parser import parse_func
from daedal.compiler.tir.stmt import Range, Region
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from tests.support.accelerator import micro_variant
from tests.support.accelerator_operators import conv_case, size_for_window

TINY = load_variant("tiny")
sizes = st.integers(1, 6)


def products(program) -> int:
    """What the GEMM core multiplies, by the loops of its instructions."""
    return sum(
        (item.uop_end - item.uop_begin) * item.extent0 * item.extent1 * item.extent2
        for item in program.instructions
        if item.unit is Unit.GEMM
    )


def needed(size, kernel, stride, pads, dilation) -> int:
    """Pairs of an output and a tap along one dimension that meet in the map."""
    outputs = (size + sum(pads) - dilation * (kernel - 1) - 1) // stride + 1
    return sum(
        0 <= output * stride + tap * dilation - pads[0] < size
        for output in range(outputs)
        for tap in range(kernel)
    )


@settings(max_examples=15)
@given(
    st.sampled_from([TINY, micro_variant()]),
    st.tuples(sizes, sizes),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(*[st.integers(0, 4)] * 4),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.integers(0, 2**32 - 1),
)
def test_any_window(variant, size, kernel, strides, pads, dilations, seed):
    top, left, bottom, right = pads
    height, width = size_for_window(size, kernel, pads, dilations)
    case = conv_case(
        variant,
        np.random.default_rng(seed),
        (1, 2, height, width),
        1,
        kernel,
        strides,
        pads,
        dilations,
        pad_value=0,
    )
    program = case.check(interpret=False).program
    most = np.prod(case.y.shape[2:4]) * np.prod(kernel)
    fewest = needed(height, kernel[0], strides[0], (top, bottom), dilations[0])
    fewest *= needed(width, kernel[1], strides[1], (left, right), dilations[1])
    assert fewest * 2 <= products(program) <= most * 2


@pytest.mark.parametrize(("pad_value", "taps"), [(0, 19 * 19), (5, 21 * 21)])
def test_only_zeros_are_left_out(rng, pad_value, taps):
    """3 x 3 on 7 x 7: in each dimension two of 21 pairs of output and tap meet padding."""
    case = conv_case(TINY, rng, (1, 1, 7, 7), 1, (3, 3), (1, 1), (1, 1, 1, 1), pad_value=pad_value)
    assert products(case.check(interpret=False).program) == taps


def test_a_map_of_one_pixel_has_one_tap(rng):
    case = conv_case(TINY, rng, (1, 3, 1, 1), 2, (3, 3), (1, 1), (1, 1, 1, 1), pad_value=0)
    assert products(case.check(interpret=False).program) == 3 * 2


@given(st.integers(1, 3), st.integers(-4, 4), st.integers(1, 9), st.integers(1, 9))
def test_the_interior_is_what_a_copy_reads_from_inside(factor, offset, size, extent):
    """Also where it takes every other element, as loads of single rows do with a stride."""
    x = te.placeholder((size, 2), "int8", "x")
    y = te.compute((extent, 2), lambda i, j: x.padded(0)[i * factor + offset, j], "y")
    func = te.create_prim_func([x], [y], "copy")
    (interior,) = interiors(func).values()
    inside = [i for i in range(extent) if 0 <= i * factor + offset < size]
    assert [list(part) for part in interior.ranges] == [inside, [0, 1]]


def test_what_is_written_in_several_steps_has_no_interior():
    text = """\
func twice(x: int8[4], out y: int8[4]):
    for i in 4:
        block y(vi:4 = i):
            y[vi] = x[vi]
            y[vi] = y[vi] + x[vi]
"""
    assert interiors(parse_func(text)) == {}


@given(
    st.integers(1, 4),
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.integers(-6, 2),
    st.tuples(st.integers(0, 4), st.integers(1, 6)),
)
def test_pieces_are_the_products_that_matter(extent, counts, factors, constant, inside):
    """Those of which a row of the operand lies inside. If the sums begin here, the first piece has
    every output, with the fewest products of padding."""
    reduce, spatial = Var("k"), Var("s")
    ranges = {reduce: range(counts[0]), spatial: range(counts[1])}
    part = range(inside[0], inside[0] + inside[1])
    interior = Interior((part,))
    region = Region(Buffer("b", (16,), "int8", "inp"), (Range(IntImm(0), extent),))
    operand = RegionForm(region, (Form(((reduce, factors[0]), (spatial, factors[1])), constant),))
    pieces = without_padding(operand, interior, {}, ranges, {reduce}, begins=True)
    found = [pair for piece in pieces for pair in itertools.product(piece[reduce], piece[spatial])]
    assert len(set(found)) == len(found)
    every = set(itertools.product(*ranges.values()))
    matter = {
        (k, s)
        for k, s in every
        if any(k * factors[0] + s * factors[1] + constant + row in part for row in range(extent))
    }
    assert pieces[0][spatial] == ranges[spatial]
    most = max(sum((k, s) in matter for s in ranges[spatial]) for k in ranges[reduce])
    assert matter <= set(found) <= every
    assert len(found) == len(matter) + counts[1] - most
    pieces = without_padding(operand, interior, {}, ranges, {reduce}, begins=False)
    later = [pair for piece in pieces for pair in itertools.product(piece[reduce], piece[spatial])]
    assert sorted(later) == sorted(matter)
    assert len(set(later)) == len(later)
