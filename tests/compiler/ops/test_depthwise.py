"""Depthwise convolution: te = loop IR = the machine = numpy, and what its tiles cost."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.correctness.rtl_launches import rtl_device
from bench.networks.depthwise_layers import LAYERS, DepthwiseLayer, depthwise_rows
from daedal.common.errors import ScheduleError
from daedal.compiler import te
from daedal.compiler.codegen.accelerator import emit_segment
from daedal.compiler.codegen.intrinsics import accelerator_intrinsics
from daedal.compiler.codegen.segment import SegmentInstruction
from daedal.compiler.link.constants import weight_bytes
from daedal.compiler.ops.accelerator.depthwise.shape import DepthwiseTile
from daedal.compiler.ops.requantize import Bounds
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.interpreter import run
from daedal.compiler.tir.sites import collect
from daedal.isa.table import GemmMode, Opcode
from daedal.isa.variant import load_variant
from daedal.runtime.driver import LoadedProgram
from daedal.sim.timing.device import TimingDevice, timing_with_values
from tests.support.accelerator import micro_variant, run_blocked
from tests.support.depthwise import DepthwiseCase, Window, depthwise_case

TINY = load_variant("tiny")
VTA = load_variant("vta")
VTA_ONE_TAP = VTA.replace("vta_one_tap", depthwise_taps=1)
MICRO = micro_variant()
ONE_TAP = micro_variant(depthwise_taps=1)
BATCH = TINY.replace("batch2", batch=2)
PACKED = load_variant("ecp5")
"""A square array whose depthwise mode takes one tap, with two products per multiplier."""

NARROW = TINY.replace("narrow", block_in=4, block_out=4, batch=2)

seeds = st.integers(0, 2**32 - 1)
pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(max_examples=10)
@given(
    st.sampled_from([TINY, MICRO, ONE_TAP, BATCH, NARROW]),
    st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 5), st.integers(1, 5)),
    st.tuples(st.integers(1, 3), st.integers(1, 4)),
    pairs,
    st.tuples(*[st.integers(0, 2)] * 4),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.sampled_from([0, 5]),
    seeds,
)
def test_every_level(variant, shape, kernel, strides, pads, dilations, pad_value, seed):
    window = Window(kernel, strides, pads, dilations, pad_value)
    height, width = window.least_size()
    size = (max(shape[2], height), max(shape[3], width))
    rng = np.random.default_rng(seed)
    depthwise_case(variant, rng, (*shape[:2], *size), window).check()


LARGER = {
    "one pixel": ((1, 1, 1, 1), Window((1, 1))),
    "one row of taps": ((1, 2, 6, 9), Window((1, 7), (1, 2), (0, 3, 0, 1))),
    "one column of taps": ((1, 2, 9, 4), Window((5, 1), (2, 1), (1, 0, 2, 0))),
    "5x5": ((1, 5, 17, 15), Window((5, 5), (2, 2), (2, 1, 1, 2))),
    "7x7": ((1, 3, 23, 21), Window((7, 7), (3, 3), (3, 3, 3, 3))),
    "no pads": ((2, 3, 11, 13), Window((3, 3))),
    "wide strides": ((1, 2, 16, 19), Window((2, 2), (4, 5))),
    "dilated": ((1, 4, 19, 17), Window((3, 3), (1, 1), (4, 2, 0, 1), (3, 2))),
    "dilated rows": ((1, 2, 19, 17), Window((3, 5), (2, 1), (4, 2, 4, 2), (4, 1))),
    "many blocks": ((1, 33, 3, 3), Window((3, 3), (1, 1), (1, 1, 1, 1))),
}


@pytest.mark.parametrize("which", LARGER)
@pytest.mark.parametrize("name", ["tiny", "vta", "wide"])
def test_larger_maps(name, which, rng):
    """With pads that count, and with zeros, whose products may be left out."""
    shape, window = LARGER[which]
    for pad_value in (5, 0) if any(window.pads) else (5,):
        case = depthwise_case(load_variant(name), rng, shape, replace(window, pad_value=pad_value))
        case.check(interpret=False)


@pytest.mark.parametrize(
    ("variant", "bounds"),
    [
        (load_variant("int4"), Bounds(1, -7, 6)),
        (load_variant("int16"), Bounds(100, -20_000, 32_767)),
        (load_variant("batch4"), Bounds(-3, -128, 127)),
        (PACKED, Bounds(-3, -128, 127)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
@pytest.mark.parametrize("which", ["5x5", "no pads", "dilated"])
def test_other_variants(variant, bounds, which, rng):
    case = depthwise_case(variant, rng, *LARGER[which], bounds=bounds)
    case.check(interpret=False)


@pytest.mark.parametrize("name", ["tiny", "int16"])
def test_the_largest_sums(name, rng):
    """All operands are the least number there is: sums of squares, nothing wraps."""
    variant = load_variant(name)
    bits = variant.array.output_bits
    bounds = Bounds(0, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    window = Window((7, 7), pads=(3, 3, 3, 3))
    case = depthwise_case(variant, rng, (1, 1, 9, 8), window, bounds=bounds, extreme=True)
    case.check(interpret=False)


@settings(max_examples=10)
@given(
    st.sampled_from([TINY, TINY.replace("one_tap", depthwise_taps=1)]),
    st.integers(1, 4),
    st.integers(1, 6),
    st.integers(1, 7),
    st.integers(1, 4),
    seeds,
)
def test_every_tile_computes_the_same(variant, blocks, height, width, groups, seed):
    """Tiles that do not divide the map or the channels, weights that begin within a row."""
    case = depthwise_case(
        variant,
        np.random.default_rng(seed),
        (1, 7, 6, 7),
        Window((3, 3), (1, 1), (1, 1, 1, 1)),
        tile=DepthwiseTile(blocks, height, width, groups),
    )
    case.check(interpret=False)


def test_batches_share_the_weights(rng):
    compiled = depthwise_case(TINY, rng, (3, 2, 4, 4), Window((3, 3))).check(interpret=False)
    loads = [i for i in compiled.segment.instructions if i.tensor == "w"]
    assert len(loads) <= 2


@pytest.mark.rtl
def test_on_rtl(rng):
    """Three taps in a product, tiles that do not divide, weights that begin within a row."""
    window = Window((3, 5), (2, 1), (1, 2, 0, 1))
    case = depthwise_case(TINY, rng, (1, 3, 11, 10), window, tile=DepthwiseTile(1, 3, 4, 1))
    program = case.check(interpret=False).program
    found = run_blocked(program, case.case.arrays, rtl_device(TINY))["y"]
    np.testing.assert_array_equal(found, case.expected)


# -- what tiles cost --------------------------------------------------------------------------


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_layers_of_mobilenet(layer):
    """The timing device counts what the RTL does; `bench/networks/depthwise_layers.py` runs that.

    With three taps a cycle, products and transfers take about as long as each other."""
    (one,) = depthwise_rows(timing_with_values(VTA_ONE_TAP), [layer])
    (three,) = depthwise_rows(timing_with_values(VTA), [layer])
    assert one.passed and three.passed
    assert one.share_of_roofline > 0.92
    assert three.share_of_roofline > 0.91
    assert three.cycles < one.cycles
    assert max(row.bytes_moved / row.bytes_once for row in (one, three)) < 1.3


@pytest.mark.parametrize(
    ("variant", "share"), [(load_variant("wide"), 0.85), (PACKED, 0.7)], ids=["wide", "packed"]
)
def test_layers_of_other_variants(variant, share):
    layers = [DepthwiseLayer("square", 28, 256, stride) for stride in (1, 2)]
    for row in depthwise_rows(timing_with_values(variant), layers):
        assert row.passed
        assert row.share_of_roofline > share


def test_the_choice_of_tiles_is_near_the_best(rng):
    """Against a sweep on the cycle model: channels, heights and widths of tiles."""
    shape, window = (1, 8, 28, 28), Window((3, 3), (2, 2), (1, 1, 1, 1))

    def cycles(tile: DepthwiseTile | None) -> int:
        program = depthwise_case(VTA, rng, shape, window, tile=tile).check(interpret=False).program
        device = TimingDevice(VTA)
        profile = device.launch(program, LoadedProgram.place(program, device).bases)
        assert profile.cycles is not None
        return profile.cycles

    sizes = ((14, 14), (14, 7), (7, 7), (5, 14), (14, 5))
    sweep = [DepthwiseTile(1, *size, 8) for size in sizes]
    assert cycles(None) <= 1.01 * min(cycles(tile) for tile in sweep)


# -- what is emitted and refused --------------------------------------------------------------


def _instructions(case: DepthwiseCase, opcode: Opcode) -> list[SegmentInstruction]:
    segment = emit_segment(case.case.schedule.func, case.case.variant)
    return [item for item in segment.instructions if item.template.opcode is opcode]


@pytest.mark.parametrize(
    ("variant", "window", "mode", "products"),
    [
        (VTA_ONE_TAP, Window((3, 3)), GemmMode.DEPTHWISE, 9),
        (VTA, Window((3, 3)), GemmMode.DEPTHWISE3, 3),
        (TINY, Window((3, 3)), GemmMode.DEPTHWISE3, 3),
        (TINY, Window((3, 5)), GemmMode.DEPTHWISE3, 6),
        (TINY, Window((3, 1)), GemmMode.DEPTHWISE, 3),
        (TINY, Window((2, 3), dilations=(1, 2)), GemmMode.DEPTHWISE, 6),
    ],
)
def test_a_tile_is_one_product_instruction(variant, window, mode, products, rng):
    case = depthwise_case(variant, rng, (1, 1, 6, 7), window, tile=DepthwiseTile(1, 6, 7, 1))
    (gemm,) = _instructions(case, Opcode.GEMM)
    assert gemm.template.mode == mode
    loops = [gemm.template.values[f"extent{level}"] for level in range(3)]
    height, width = (
        size - (k - 1) * d
        for size, k, d in zip((6, 7), window.kernel, window.dilations, strict=True)
    )
    assert math.prod(loops) * len(gemm.uops) == height * width * products


@pytest.mark.parametrize(("strides", "products"), [((1, 1), 19 * 19), ((2, 2), 12 * 12)])
def test_padding_zeros_are_multiplied_where_the_bus_is_the_limit(strides, products, rng):
    """7x7 pixels have 19 x 19 products besides padding, strides on 8x8 give 12 x 12 in all."""
    size = 7 if strides == (1, 1) else 8
    window = Window((3, 3), strides, (1, 1, 1, 1), pad_value=0)
    case = depthwise_case(VTA_ONE_TAP, rng, (1, 8, size, size), window)
    case.check(interpret=False)
    made = 0
    for item in _instructions(case, Opcode.GEMM):
        loops = (item.template.values[f"extent{level}"] for level in range(3))
        made += math.prod(loops) * len(item.uops)
    assert made == 8 * products


def test_weights_take_the_rows_that_their_vectors_fill(rng):
    """Nine vectors to a block of channels: 16 blocks are 9 weight rows of 16 vectors."""
    tile = DepthwiseTile(1, 5, 5, 5)
    case = depthwise_case(VTA_ONE_TAP, rng, (1, 16, 7, 7), Window((3, 3)), tile=tile)
    assert len(weight_bytes(VTA_ONE_TAP, case.case.arrays["w"])) == 9 * 256
    loads = [i for i in _instructions(case, Opcode.LOAD) if i.tensor == "w"]
    # Five blocks are 45 vectors: from vectors 0, 45, 90 and 135 on.
    rows = [(i.template.offset_beats // 32, i.template.cols) for i in loads]
    assert rows == [(0, 3), (2, 4), (5, 4), (8, 1)]


def test_groups_of_three_vectors_stay_within_a_row(rng):
    w = np.arange(1, 2 * 3 * 1 * 3 * 8 + 1).reshape(2, 3, 1, 3, 8) % 100
    rows = np.frombuffer(weight_bytes(TINY, w), np.int8).reshape(-1, 8, 8)
    assert len(rows) == 3
    for number, group in enumerate(w.reshape(-1, 3, 8)):
        begin = 4 * (number % 2)
        np.testing.assert_array_equal(rows[number // 2, begin : begin + 3], group)
        assert not rows[number // 2, begin + 3].any()


def test_a_window_beyond_the_scratchpad_is_refused(rng):
    variant = TINY.replace("small", inp_bytes=64)
    with pytest.raises(
        ScheduleError,
        match=r"window must fit scratchpad 'inp' \(64 bytes\) and its weights 'wgt'; one window of "
        r"3x3 pixels takes 72 bytes; use a variant with larger scratchpads",
    ):
        depthwise_case(variant, rng, (1, 1, 4, 4), Window((3, 3)))


def _product(columns: int, step: int) -> Schedule:
    """A row of products of three taps, `step` columns apart, cut out for `gemm_depthwise3`."""
    x = te.placeholder((columns, 1, 8), "int8", "x")
    w = te.placeholder((3, 8), "int8", "w")
    t = te.reduce_axis(3, "t")
    acc = te.compute(
        (2, 1, 8),
        lambda v, b, o: te.sum(x[v + t * step, b, o].astype("int32") * w[t, o].astype("int32"), t),
        "acc",
    )
    sch = Schedule(te.create_prim_func([x, w], [acc]), accelerator_intrinsics(TINY))
    block = sch.get_block("acc")
    sch.cache_write(block, 0, "acc")
    sch.cache_read(block, "x", "inp")
    sch.cache_read(block, "w", "wgt")
    return sch


def test_neighbouring_rows_are_one_product(rng):
    sch = _product(4, 1)
    block = sch.get_block("acc")
    sch.tensorize(sch.get_loops(block)[1], "gemm_depthwise3")
    site = next(s for s in collect(sch.func.body)[0] if s.block.name == "acc")
    assert dict(site.block.annotations) == {"intrin": "gemm_depthwise3", "operands": "a,w"}
    x = rng.integers(-128, 128, (4, 1, 8)).astype(np.int8)
    w = rng.integers(-128, 128, (3, 8)).astype(np.int8)
    (result,) = run(sch.func, {"x": x, "w": w}).values()
    expected = sum(x[t : t + 2].astype(np.int32) * w[t] for t in range(3))
    np.testing.assert_array_equal(result, expected)


def test_taps_that_are_apart_are_no_product():
    sch = _product(6, 2)
    with pytest.raises(
        ScheduleError,
        match="to compute 'gemm_depthwise3': no loop of extent 3 steps through neighbouring rows "
        "of 'x_inp'",
    ):
        sch.tensorize(sch.get_loops(sch.get_block("acc"))[1], "gemm_depthwise3")


def test_weights_must_lie_in_one_run(rng):
    """Rows of the kernel cannot be tiled: their vectors of several channels are apart."""
    case = depthwise_case(VTA_ONE_TAP, rng, (1, 2, 4, 4), Window((3, 3)))
    sch = Schedule(case.case.original, accelerator_intrinsics(VTA_ONE_TAP))
    block = sch.get_block("acc")
    sch.set_scope(block, 0, "acc")
    n, c, h, w, u, b, o, kh, kg, kt = sch.get_loops(block)
    sch.reorder(kh, n, c, h, w, u, kg, b, o, kt)
    weights = sch.cache_read(block, "w", "wgt")
    sch.compute_at(weights, kh)
    with pytest.raises(
        ScheduleError,
        match=r"channel vectors must be loaded in one run, not as a box of \[2, 1, 3, 1\] out of "
        r"\[2, 3, 3, 1\] \('w_wgt'\); tile the outermost dimension alone",
    ):
        emit_segment(sch.func, VTA_ONE_TAP)


def test_weights_must_be_cached_as_a_part_of_all(rng):
    x = te.placeholder((2, 1, 16), "int8", "x")
    w = te.placeholder((3, 1, 16), "int8", "w")
    tap = te.reduce_axis(1, "tap")
    acc = te.compute(
        (2, 1, 16),
        lambda c, b, o: te.sum(x[c, b, o].astype("int32") * w[c + 1, tap, o].astype("int32"), tap),
        "acc",
    )
    sch = Schedule(te.create_prim_func([x, w], [acc]), accelerator_intrinsics(VTA))
    block = sch.get_block("acc")
    sch.cache_write(block, 0, "acc")
    weights = sch.cache_read(block, "w", "wgt")
    sch.tensorize(sch.get_loops(weights)[0], "load")
    with pytest.raises(
        ScheduleError,
        match=r"channel vectors must be cached as a part of all of 'w', \[3, 1, 16\], not as one "
        r"of \[2, 1, 16\]; let the block read the whole tensor",
    ):
        emit_segment(sch.func, VTA)
