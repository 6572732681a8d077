"""Convolution over streams: numpy = te = loop IR before and after its schedule = the machine."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from daedal.common.errors import ScheduleError
from daedal.isa.table import Opcode
from daedal.isa.variant import Variant, load_variant
from tests.support.accelerator import micro_variant
from tests.support.stream_convolution import StreamConvolution, stream_case

TINY = load_variant("tiny")
MICRO = micro_variant()
WIDE_IN = micro_variant(block_in=16, wgt_bytes=8192, inp_bytes=1024, depthwise_taps=0)
WIDE_OUT = micro_variant(
    block_out=16, wgt_bytes=8192, acc_bytes=4096, out_bytes=1024, par_bytes=512, depthwise_taps=0
)
NARROW_BUS = micro_variant(block_in=32, block_out=8, wgt_bytes=16384, depthwise_taps=0)


WIDE_BUS = load_variant("vta").replace("wide_bus", data_bits=128)


def beat_of(variant: Variant, copies: int = 1) -> int:
    """Elements at a multiple of which a row can begin: a bus word, or a part of a row."""
    array, beat = variant.array, variant.bus_bytes * 8 // variant.array.input_bits
    if array.batch == 1 and beat < array.block_in:
        assert copies == 1, "LOAD begins rows at bus words"
        return beat
    return array.block_in // copies


@st.composite
def convolutions(draw: st.DrawFn) -> StreamConvolution:
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    strides = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    pads = tuple(draw(st.integers(0, 3)) for _ in range(4))
    size = [
        max(draw(st.integers(1, 6)), reach - pads[axis] - pads[axis + 2])
        for axis, reach in enumerate(kernel)
    ]
    channels = draw(st.integers(1, 3))
    groups = [(rows, 0) for rows in (1, 2, 3) if strides[0] % rows == 0]
    if pads[0] < kernel[0] > strides[0]:
        groups.append((kernel[0], strides[0]))
    group_rows, group_step = draw(st.sampled_from(groups))
    return StreamConvolution(
        (draw(st.integers(1, 2)), channels, *size),
        draw(st.integers(1, 20)),
        kernel,
        strides,
        pads,
        channels + draw(st.integers(0, 1)),
        group_rows,
        draw(st.sampled_from([1, 1, 2, 4])),
        group_step,
    )


@settings(max_examples=15)
@given(
    st.sampled_from([MICRO, TINY, WIDE_IN, WIDE_OUT, NARROW_BUS, WIDE_BUS]),
    convolutions(),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_every_level(variant, conv, whole_rows, seed):
    rng = np.random.default_rng(seed)
    assume(conv.copies == 1 or beat_of(variant) == variant.array.block_in)
    beat = beat_of(variant, conv.copies)
    if whole_rows and conv.copies == 1:
        beat = variant.array.block_in
    try:
        case = stream_case(variant, rng, conv, beat)
    except ScheduleError as error:
        assume("must fit scratchpad 'inp'" not in str(error))
        raise
    case.check(interpret=np.prod(conv.extent) * conv.out_channels <= 200)


@pytest.mark.parametrize(
    "name", ["tiny", "vta", "wide", "int16", "int4", "batch4", "ecp5", "ecp5_half"]
)
@pytest.mark.parametrize(
    "conv",
    [
        StreamConvolution((1, 3, 29, 31), 20, (7, 7), (2, 2), (3, 3, 3, 3), 3, 2),
        StreamConvolution((2, 3, 13, 9), 8, (3, 3), (1, 1), (1, 1, 1, 1), 3, 1),
        StreamConvolution((1, 1, 11, 40), 17, (2, 5), (1, 3), (0, 2, 1, 0), 2, 1),
        StreamConvolution((5, 2, 1, 1), 3, (3, 3), (2, 1), (1, 1, 1, 1), 2, 2),
        StreamConvolution((1, 3, 23, 25), 20, (7, 7), (2, 2), (3, 3, 3, 3), 3, 7, 1, 2),
    ],
    ids=["7x7", "3x3", "2x5", "one pixel", "groups with common rows"],
)
def test_every_variant(name, conv, rng):
    variant = load_variant(name)
    stream_case(variant, rng, conv, beat_of(variant)).check(interpret=False)


@pytest.mark.parametrize("copies", [1, 2, 4])
def test_copies_of_the_stream(copies, rng):
    conv = StreamConvolution((1, 3, 29, 31), 20, (7, 7), (2, 2), (3, 3, 3, 3), 3, 2, copies)
    stream_case(WIDE_BUS, rng, conv, beat_of(WIDE_BUS, copies)).check(interpret=False)


def test_a_window_that_fits_nowhere_is_refused(rng):
    variant = micro_variant(inp_bytes=128)
    conv = StreamConvolution((1, 3, 40, 40), 8, (9, 9), (1, 1), (0, 0, 0, 0), 3, 1)
    with pytest.raises(
        ScheduleError,
        match=r"the window of a convolution over a stream must fit scratchpad 'inp' \(128 bytes\) "
        r"and its weights 'wgt'; the smallest tile takes \d+ bytes and \d+ rows; use a variant",
    ):
        stream_case(variant, rng, conv, beat_of(variant))


def test_products_with_weights_of_zero_are_left_out() -> None:
    """A window of 27 elements takes two vectors of 16 where it begins at one of the first five."""
    vta = load_variant("vta")
    conv = StreamConvolution(
        (1, 3, 9, 45), 16, (3, 3), (2, 2), (1, 1, 1, 1), channels=3, group_rows=3, group_step=2
    )
    _, layout = conv.layouts(vta, 16)
    assert layout.vectors_by_phase == (2, 2, 2, 3, 3, 3, 3, 3)
    case = stream_case(vta, np.random.default_rng(1), conv, 16)
    case.check(interpret=False)
    rows, columns = conv.extent
    products = sum(
        (item.uop_end - item.uop_begin) * item.extent0 * item.extent1 * item.extent2
        for item in case.linked.program.instructions
        if item.opcode is Opcode.GEMM
    )
    assert products == rows * sum(layout.vectors_by_phase[x % 8] for x in range(columns))
