"""Grouped convolutions: groups that fill blocks together, at every level and on every variant."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import daedal
from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import compare_operators, processor_graph
from daedal.compiler.graph import run_all
from daedal.compiler.graph.grouped_layout import GroupedWeightLayout

blocks = st.sampled_from([4, 8, 16])


@given(blocks, blocks, st.integers(1, 12), st.integers(1, 9), st.integers(1, 9), st.integers(1, 2))
def test_weights_come_back(block_out, block_in, groups, outs, ins, kernel):
    layout = GroupedWeightLayout(block_out, block_in, groups, (groups * outs, groups * ins))
    shape = (groups * outs, ins, kernel, 3)
    values = np.arange(1, np.prod(shape) + 1).reshape(shape)
    packed = layout.pack(values)
    assert packed.shape == layout.physical_shape(shape)
    np.testing.assert_array_equal(layout.unpack(packed), values)
    assert np.count_nonzero(packed) == values.size, "between the groups there is nothing"


@pytest.mark.parametrize(
    ("groups", "channels", "joined", "parts"),
    [
        (32, (128, 128), 4, 8),  # groups of 4: four to a block
        (2, (128, 128), 1, 2),  # groups of whole blocks stay
        (4, (64, 96), 2, 2),  # 24 inputs each: two groups are three blocks
        (10, (40, 40), 4, 3),  # the last block holds two groups only
        (3, (40 * 3, 40 * 3), 3, 1),  # two groups would be five blocks, the third three: dense
    ],
)
def test_how_many_groups_are_joined(groups, channels, joined, parts):
    layout = GroupedWeightLayout(16, 16, groups, channels)
    assert (layout.joined, layout.parts) == (joined, parts)


def grouped(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    out_channels: int,
    groups: int,
    **attrs: object,
) -> QdqModel:
    model = QdqModel()
    x = model.requantized(model.input("x", shape), 0.02, 3, output="x_q")
    values = rng.integers(-127, 128, (out_channels, shape[1] // groups, 3, 2), dtype=np.int8)
    scales = rng.uniform(0.005, 0.02, out_channels).astype(np.float32)
    y = model.op(
        "Conv", x, model.weights(values, scales), kernel_shape=[3, 2], group=groups, **attrs
    )
    scale = 0.01 * 0.02 * 73 * 74 * np.sqrt(values[0].size) / 40
    model.requantized(y, scale, -5, output="y_q")
    return model


@settings(max_examples=8)
@given(
    st.sampled_from(["tiny", "vta", "wide", "batch4"]),
    st.integers(2, 9),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(0, 2**32 - 1),
)
def test_the_program_gives_the_reference(variant, groups, ins, outs, seed):
    rng = np.random.default_rng(seed)
    shape = (4 if variant == "batch4" else 1, groups * ins, 5, 4)
    attrs = {"strides": [1, 2], "pads": [1, 0, 1, 1]}
    model = grouped(rng, shape, groups * outs, groups, **attrs)
    proto = model.model(model.nodes[-1].output[0])
    artifact = daedal.compile(proto.SerializeToString(), variant)
    x = {"x": rng.uniform(-2.6, 2.6, shape).astype(np.float32)}
    graph = processor_graph(proto.SerializeToString(), artifact.program.variant)
    expected = run_all(graph, x)["y_q"]
    found = daedal.simulate(artifact, x).tensors["y_q"].reshape(expected.shape)
    np.testing.assert_array_equal(found, expected)
    assert all(item.largest <= 1 for item in compare_operators(proto, graph, x))
    assert artifact.layers[0].macs == expected.size * ins * 6


def test_groups_of_four_channels_waste_no_block(rng):
    """128 channels in 32 groups: one product of 16 channels for each tap of each block."""
    shape = (1, 128, 14, 14)
    model = grouped(rng, shape, 128, 32, pads=[1, 0, 1, 1])
    artifact = daedal.compile(model.model(model.nodes[-1].output[0]).SerializeToString(), "vta")
    x = {"x": rng.uniform(-2.6, 2.6, shape).astype(np.float32)}
    cycles = daedal.simulate(artifact, x, device="timing").profiles[0].cycles
    assert cycles < 1.2 * 8 * 14 * 14 * 6
