"""First layers as streams: the same bytes, fewer products, little work for the host."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import daedal
from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import processor_graph
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import Graph, run, run_all, verify
from daedal.compiler.graph.passes import rewrite_first_layer
from daedal.compiler.graph.stream_layout import RowStreamLayout, RowStreamWeightLayout
from daedal.compiler.pipeline import graph_passes
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import load_variant

SCALE = 0.02


def first_layer(
    rng: np.random.Generator,
    shape: tuple[int, int, int, int],
    out_channels: int,
    kernel: tuple[int, int],
    **attrs: object,
) -> bytes:
    """A quantized image and one convolution; its results spread over the range of int8."""
    model = QdqModel()
    x = model.requantized(model.input("x", shape), SCALE, 3, output="x_q")
    values = rng.integers(-127, 128, (out_channels, shape[1], *kernel), dtype=np.int8)
    y = model.op("Conv", x, model.weights(values, 0.01), kernel_shape=list(kernel), **attrs)
    deviation = SCALE * 0.01 * 73 * 74 * np.sqrt(values[0].size)
    return model.model(model.requantized(y, deviation / 40, -5, output="y_q")).SerializeToString()


def blocked(model: bytes, variant: str) -> Graph:
    """The graph before the rewriting."""
    graph = load_onnx(model)
    for name, run_pass in graph_passes(load_variant(variant), (), ()):
        if name == "rewrite_first_layer":
            break
        graph = run_pass(graph)
    return graph


def layouts(graph: Graph) -> tuple[RowStreamLayout, RowStreamWeightLayout]:
    (node,) = [node for node in graph.nodes if node.op == "q_conv2d"]
    x, w = (graph.types[name].layout for name in node.inputs[:2])
    assert isinstance(x, RowStreamLayout) and isinstance(w, RowStreamWeightLayout)
    return x, w


def is_rewritten(graph: Graph) -> bool:
    return any(node.op == "pack_stream" for node in graph.nodes)


RESNET18 = {"strides": [2, 2], "pads": [3, 3, 3, 3]}


def test_resnet18_takes_ten_products_where_blocks_take_49(rng):
    graph = blocked(first_layer(rng, (1, 3, 224, 224), 64, (7, 7), **RESNET18), "vta")
    rewritten = rewrite_first_layer(graph, load_variant("vta"))
    verify(rewritten)
    x, w = layouts(rewritten)
    assert (w.groups * w.vectors, x.stream.group_rows, x.stream.channels) == (10, 7, 3)
    image, held = 3 * 224 * 224, np.prod(x.physical_shape((1, 3, 224, 224)))
    assert held <= image * 16 / 12 * 7 / 2  # what the host may write: each row 3.5 times


@pytest.mark.parametrize(("kernel", "products"), [(3, 3), (7, 7)])
def test_the_cheapest_layout_is_chosen(kernel, products, rng):
    """A product for each row of the kernel; the first layout that is tried takes two."""
    model = first_layer(rng, (1, 1, 16, 16), 16, (kernel, kernel), pads=[kernel // 2] * 4)
    _, w = layouts(rewrite_first_layer(blocked(model, "tiny"), load_variant("tiny")))
    assert w.groups * w.vectors == products


def test_the_host_writes_rows_once_where_that_takes_it_longer_than_it_saves(rng):
    """Eight channels fill all lanes, with rows once or several times."""
    model = first_layer(rng, (1, 8, 64, 64), 16, (3, 3), pads=[1, 1, 1, 1])
    rewritten = rewrite_first_layer(blocked(model, "vta"), load_variant("vta"))
    assert layouts(rewritten)[0].stream.group_step == 0


@pytest.mark.parametrize(("beat_cycles", "step"), [(1, 2), (4, 0)])
def test_rows_are_held_once_where_the_memory_is_slow(beat_cycles, step, rng):
    graph = blocked(first_layer(rng, (1, 3, 224, 224), 64, (7, 7), **RESNET18), "vta")
    memory = replace(PRESETS["ddr"], beat_cycles=beat_cycles)
    x, _ = layouts(rewrite_first_layer(graph, load_variant("vta"), memory))
    assert x.stream.group_step == step


def test_cycles_of_resnet18s_first_layer(rng):
    """501,760 products; 16-lane blocks take 2,458,624."""
    model = first_layer(rng, (1, 3, 224, 224), 64, (7, 7), **RESNET18)
    artifact = daedal.compile(model, "vta")
    x = rng.uniform(-2.6, 2.6, (1, 3, 224, 224)).astype(np.float32)
    result = daedal.simulate(artifact, {"x": x}, device="timing")
    expected = run_all(processor_graph(model, artifact.program.variant), {"x": x})["y_q"]
    np.testing.assert_array_equal(result.tensors["y_q"].reshape(expected.shape), expected)
    assert result.profiles[0].cycles < 1.02 * 501_760


@settings(max_examples=10)
@given(
    st.sampled_from(["tiny", "vta", "wide", "batch4"]),
    st.tuples(st.sampled_from([1, 4]), st.integers(1, 4), st.integers(1, 14), st.integers(1, 14)),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(*[st.integers(0, 3)] * 4),
    st.integers(0, 2**32 - 1),
)
def test_the_graph_computes_the_same_bytes(variant, shape, kernel, strides, pads, seed):
    height, width = (
        max(shape[2 + axis], kernel[axis] - pads[axis] - pads[axis + 2]) for axis in range(2)
    )
    shape = (*shape[:2], height, width)
    rng = np.random.default_rng(seed)
    model = first_layer(rng, shape, 10, kernel, strides=list(strides), pads=list(pads))
    graph = blocked(model, variant)
    rewritten = rewrite_first_layer(graph, load_variant(variant))
    verify(rewritten)
    inputs = {"x": rng.uniform(-2.6, 2.6, shape).astype(np.float32)}
    expected, found = run(graph, inputs), run(rewritten, inputs)
    for name in graph.outputs:
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("variant", ["tiny", "vta", "wide", "batch4"])
def test_the_program_computes_the_same_bytes(variant, rng):
    shape = (4 if variant == "batch4" else 1, 3, 23, 19)
    model = first_layer(rng, shape, 10, (5, 3), strides=[2, 1], pads=[2, 1, 0, 1])
    artifact = daedal.compile(model, variant)
    assert [node.op for node in artifact.host_nodes][1] == "permute and pad"
    assert artifact.program.inputs[0].stream is not None
    x = rng.uniform(-2.6, 2.6, shape).astype(np.float32)
    expected = run_all(processor_graph(model, artifact.program.variant), {"x": x})["y_q"]
    found = daedal.simulate(artifact, {"x": x}).tensors["y_q"]
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)
    assert len(np.unique(found)) > 50


@pytest.mark.parametrize(
    ("shape", "kernel", "attrs"),
    [
        ((1, 16, 8, 8), (3, 3), {}),  # no lane is idle
        ((1, 3, 8, 8), (1, 1), {}),  # one tap
        ((1, 3, 8, 8), (3, 3), {"dilations": [2, 2]}),
    ],
    ids=["many channels", "1x1", "dilated"],
)
def test_what_stays(shape, kernel, attrs, rng):
    graph = blocked(first_layer(rng, shape, 16, kernel, **attrs), "vta")
    assert not is_rewritten(rewrite_first_layer(graph, load_variant("vta")))


def test_an_image_that_two_layers_read_stays(rng):
    model = QdqModel()
    x = model.requantized(model.input("x", (1, 3, 8, 8)), SCALE, 3)
    ends = []
    for output in ("a_q", "b_q"):
        w = model.weights(rng.integers(-127, 128, (8, 3, 3, 3), dtype=np.int8), 0.01)
        y = model.op("Conv", x, w, kernel_shape=[3, 3])
        ends.append(model.requantized(y, 0.1, 0, output=output))
    graph = blocked(model.model(*ends).SerializeToString(), "vta")
    assert not is_rewritten(rewrite_first_layer(graph, load_variant("vta")))
