"""Threads compute the same part of every map, so that each finds what it reads in its own cache."""

import ctypes

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from daedal.artifact.host_code import CodeCall
from daedal.compiler.cpu.build import build_host_code
from daedal.native.call_table import KernelCall
from daedal.runtime.host_code import HostProgram

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
SIZE, CHANNELS = 28, 64
TILES = 7
"""Along each side, of a transform."""
TILE = 16
"""Pixels of a tile: those of one may be shared."""


def network(second: tuple[int, ...], groups: int) -> onnx.ModelProto:
    """Pointwise, 3x3 with weights of shape `second`, pointwise: maps of 28 x 28 pixels."""
    rng = np.random.default_rng(3)
    shapes = {"a": (CHANNELS, 32, 1, 1), "b": second, "c": (CHANNELS, CHANNELS, 1, 1)}
    weights = [
        numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "a"], ["p"]),
        node("Conv", ["p", "b"], ["q"], group=groups, pads=[1] * 4),
        node("Conv", ["q", "c"], ["r"]),
        node("GlobalAveragePool", ["r"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 32, SIZE, SIZE))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, CHANNELS, 1, 1))],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize(
    ("second", "groups", "fewest"),
    [((CHANNELS, 1, 3, 3), CHANNELS, 5), ((CHANNELS, CHANNELS, 3, 3), 1, 7)],
    ids=["depthwise", "tiles"],
)
def test_threads_share_pixels_not_channels(
    second: tuple[int, ...], groups: int, fewest: int
) -> None:
    """The first of two threads stores all channels of the upper half, in every map, and of the
    transformed tiles of 4 x 4 pixels of a map, which `groups` of 1 has."""
    program = HostProgram(build_host_code(network(second, groups)), 1)
    maps = 0
    for step in program.code.steps:
        assert isinstance(step, CodeCall)
        result = program.array(step.buffers[-1])
        rows = [
            axis for axis, extent in enumerate(result.shape) if extent in (SIZE, SIZE + 2, TILES)
        ]
        if not rows:
            continue
        result[...] = np.nan
        arrays = [program.array(number).ctypes.data for number in step.buffers]
        addresses = (ctypes.c_void_p * len(arrays))(*arrays)
        address = program.function(step.symbol)
        call = KernelCall(address, 0, step.iterations, splits=True, rounds=step.rounds)
        begin, end, between, rounds = call.parts(2)[0]
        for first in range(rounds):
            FUNCTION(address)(addresses, begin + first * between, end + first * between)
        others = tuple(axis for axis in range(result.ndim) if axis not in rows[:2])
        stored = ~np.isnan(result)
        result[...] = 0
        partly = stored.any(others) & ~stored.all(others)
        assert partly.sum() <= TILE, "all channels of a pixel, or none"
        (lines,) = np.nonzero(stored.any((*others, rows[1])))
        assert lines.max() < 0.65 * result.shape[rows[0]], step
        maps += 1
    assert maps >= fewest, "x, p and its border, q, r; with tiles, elements and products"
