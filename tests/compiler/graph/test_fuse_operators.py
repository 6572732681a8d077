"""Injective operators join the convolution before them, where nothing else reads its result."""

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import run_all
from daedal.compiler.graph.passes import fuse_operators
from daedal.compiler.pipeline import compile_graph, graph_passes
from daedal.isa.variant import load_variant
from tests.support.networks import check_compiled
from tests.support.operator_graphs.layer_graph import inputs_of
from tests.support.operator_graphs.operators import OPERATORS
from tests.support.pick import Pick

TINY = load_variant("tiny")


def network(
    rng: np.random.Generator, *, swap=False, twice=False, conv_skip=False, zero_points=(3, 5)
):
    """x -> conv -> + x -> y; optionally the operands swapped, the sum read twice, two branches."""
    maker = QdqModel()

    def conv(source: str, outputs: int, kernel: int, zero_point: int) -> str:
        weights = rng.integers(-127, 128, (outputs, 12, kernel, kernel)).astype(np.int8)
        scales = rng.uniform(0.001, 0.01, outputs).astype(np.float32)
        pad = kernel // 2
        result = maker.op("Conv", source, maker.weights(weights, scales), pads=[pad] * 4)
        return maker.requantized(result, 0.05, zero_point)

    x = maker.requantized(maker.input("x", (1, 12, 7, 5)), 0.04, -3)
    branch = conv(x, 12, 3, 3)
    other = conv(x, 12, 1, 5) if conv_skip else x
    operands = (other, branch) if swap else (branch, other)
    total = maker.requantized(maker.op("Add", *operands), 0.06, -11)
    if twice:
        total = maker.requantized(maker.op("Add", total, branch), 0.07, 2)
    return load_onnx(maker.model(total).SerializeToString())


def blocked(graph):
    """Just before the pass."""
    for name, run_pass in graph_passes(TINY, (), ()):
        if name == "fuse_operators":
            return graph
        graph = run_pass(graph)
    raise AssertionError("the pass is in the pipeline")


def operators(graph) -> list[str]:
    return [node.op for node in graph.nodes if node.op.startswith("q_")]


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("conv_skip", [False, True])
def test_the_result_stays_the_same(rng, swap, conv_skip):
    graph = blocked(network(rng, swap=swap, conv_skip=conv_skip))
    fused = fuse_operators(graph)
    assert operators(fused) == ["q_conv2d"] * conv_skip + ["q_conv2d_add"]
    x = rng.normal(0, 2, (1, 12, 7, 5)).astype(np.float32)
    (name,) = graph.outputs
    np.testing.assert_array_equal(run_all(fused, {"x": x})[name], run_all(graph, {"x": x})[name])


def test_the_larger_of_two_convolutions_is_taken(rng):
    fused = fuse_operators(blocked(network(rng, conv_skip=True)))
    joined = next(node for node in fused.nodes if node.op == "q_conv2d_add")
    assert fused.types[joined.inputs[1]].shape[2:] == (3, 3)


def test_what_others_read_stays(rng):
    graph = blocked(network(rng, twice=True))
    assert operators(fuse_operators(graph)) == operators(graph)


@pytest.mark.parametrize("name", [name for name in OPERATORS if name.startswith("conv2d_")])
@pytest.mark.parametrize("seed", range(6))
def test_every_pair_is_fused_and_means_the_same(name, seed):
    """Of dense, grouped and depthwise convolutions, and those of a host's image."""
    pick = Pick.seeded([seed, *name.encode()])
    graph = OPERATORS[name].graph(pick, TINY)
    every = graph_passes(TINY, (), ())
    after_import = [name for name, _ in every].index("lower_qdq") + 1
    compiled = graph
    for _, run_pass in every[after_import:]:
        compiled = run_pass(compiled)
    assert [node.op for node in compiled.nodes if node.op.startswith("q_")] == [f"q_{name}"]
    inputs = inputs_of(graph, pick)
    (output,) = graph.outputs
    expected = run_all(graph, inputs)[output]
    np.testing.assert_array_equal(run_all(compiled, inputs)[output], expected)


@pytest.mark.parametrize("variant", ["tiny", "vta", "wide", "batch4"])
def test_on_the_machine(rng, variant):
    for swap in (False, True):
        compiled = compile_graph(network(rng, swap=swap, conv_skip=True), load_variant(variant))
        assert "q_conv2d_add" in [layer.op for layer in compiled.launch.layers]
        check_compiled(compiled, rng)


def test_without_fusion_every_operator_is_a_layer(rng):
    graph = network(rng, conv_skip=True)
    apart = compile_graph(graph, TINY, fuse=False)
    assert [layer.op for layer in apart.launch.layers] == ["q_conv2d", "q_conv2d", "q_add"]
    check_compiled(apart, rng)
    together = compile_graph(graph, TINY)
    stored = [
        sum(item.opcode.name == "STORE" for item in compiled.launch.program.instructions)
        for compiled in (apart, together)
    ]
    assert stored[1] < stored[0]
