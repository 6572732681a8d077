"""The estimate of a convolution's cycles: what one knob changes, compared with the cycle model."""

import numpy as np
import onnx
import pytest

from bench.qdq_model import QdqModel
from daedal.compiler.cost.memory import DDR
from daedal.compiler.frontend import load_onnx
from daedal.compiler.ops.accelerator.lowering import space_of
from daedal.compiler.ops.space import Config
from daedal.compiler.pipeline import compile_graph
from daedal.isa.registers import CycleClass
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from daedal.tuning.layer_runner import LayerRunner

VTA = load_variant("vta")


def pointwise(channels: int, size: int) -> onnx.ModelProto:
    """A 1x1 convolution on a square map."""
    maker, rng = QdqModel(), np.random.default_rng(1)
    x = maker.dequantize(maker.input("x", (1, channels, size, size), "int8"), 0.02, 0)
    values = rng.integers(-127, 128, (channels, channels, 1, 1)).astype(np.int8)
    y = maker.op("Conv", x, maker.weights(values, 0.01), kernel_shape=[1, 1])
    maker.quantize(y, 0.5, 0, output="y")
    return maker.model("y", dtype="int8")


def product(rows: int, inner: int, outer: int) -> onnx.ModelProto:
    """A matrix product with constant weights."""
    maker, rng = QdqModel(), np.random.default_rng(2)
    x = maker.dequantize(maker.input("x", (rows, inner), "int8"), 0.02, 0)
    values = rng.integers(-127, 128, (inner, outer)).astype(np.int8)
    maker.quantize(maker.op("MatMul", x, maker.weights(values, 0.01)), 0.5, 0, output="y")
    return maker.model("y", dtype="int8")


def window(channels: int, size: int, *, adds: bool) -> onnx.ModelProto:
    """A 3x3 convolution; its result may be added to another map."""
    maker, rng = QdqModel(), np.random.default_rng(3)
    shape = (1, channels, size, size)
    x = maker.dequantize(maker.input("x", shape, "int8"), 0.02, 0)
    values = rng.integers(-127, 128, (channels, channels, 3, 3)).astype(np.int8)
    y = maker.op("Conv", x, maker.weights(values, 0.01), kernel_shape=[3, 3], pads=[1] * 4)
    if adds:
        skip = maker.dequantize(maker.input("skip", shape, "int8"), 0.02, 0)
        y = maker.op("Add", maker.requantized(y, 0.5, 0), skip)
    maker.quantize(y, 0.5, 0, output="y")
    return maker.model("y", dtype="int8")


class Case:
    """The convolution of a model."""

    def __init__(self, model: onnx.ModelProto) -> None:
        graph = compile_graph(load_onnx(model.SerializeToString()), VTA).launch.graph
        (node,) = [node for node in graph.nodes if node.op.startswith("q_conv2d")]
        space = space_of(graph, node, VTA)
        assert space is not None
        self.space, self.runner = space, LayerRunner(graph, node, VTA)

    def config(self, **knobs: int) -> Config:
        """The default with other values of some knobs."""
        return Config.from_json({**self.space.default.to_json(), **knobs})

    def estimate(self, config: Config) -> float:
        """In cycles."""
        return float(self.space.cycles(self.space.table([config]))[0])

    def count(self, config: Config) -> int:
        """Cycles on the cycle model."""
        (cycles,) = self.runner([config])
        assert cycles is not None
        return cycles

    def stalls(self, config: Config) -> int:
        """Cycles that GEMM lost to others at the accumulators."""
        profile = self.runner.profile(config)
        assert profile is not None
        return profile.units[Unit.GEMM].classes[CycleClass.STALL]


KEPT = {"width": 14, "height": 5, "out_blocks": 2, "turns": 3, "keep_inputs": 1}
WHOLE = {"width": 14, "out_blocks": 5, "in_blocks": 1, "turns": 1, "keep_inputs": 0}
GROUPS = {"height": 1, "width": 1, "in_blocks": 8, "turns": 1, "keep_inputs": 0}


@pytest.mark.parametrize(
    ("model", "knobs", "changed"),
    [
        # Equal steps are one GEMM, which waits for all loads; unequal ones begin with the first.
        pytest.param(pointwise(72, 14), KEPT, ({"in_blocks": 2}, {"in_blocks": 1}), id="steps"),
        # Tiles of 4 rows end with one of 2, tiles of 7 with one of 7.
        pytest.param(pointwise(72, 14), WHOLE, ({"height": 4}, {"height": 7}), id="end"),
        # Half of the weights stay on chip. GEMM waits for the others more often if steps are small.
        pytest.param(
            product(32, 128, 1024),
            GROUPS,
            ({"out_blocks": 16}, {"out_blocks": 8}),
            id="reloads",
        ),
    ],
)
def test_differences_follow_the_machine(model, knobs, changed):
    case = Case(model)
    before, after = (case.config(**knobs, **change) for change in changed)
    counted = case.count(after) - case.count(before)
    assert counted > 300, "a difference that matters"
    estimated = case.estimate(after) - case.estimate(before)
    assert estimated == pytest.approx(counted, rel=0.25)


def test_stalls_at_the_accumulators():
    """With two blocks of inputs, four products in turn go to one row, and LOAD takes slots. How
    many depends on the banks; the estimate counts some, and only where there is another map."""
    knobs = {"height": 4, "width": 56, "out_blocks": 1, "turns": 0, "keep_inputs": 0}
    added, plain = (Case(window(64, 56, adds=adds)) for adds in (True, False))
    one, two = (added.config(**knobs, in_blocks=blocks) for blocks in (1, 2))
    counted = added.stalls(two) - added.stalls(one)
    assert counted > 1000
    assert plain.stalls(two) < 100
    more, usual = (case.estimate(two) - case.estimate(one) for case in (added, plain))
    assert 0 < more - usual <= counted


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(pointwise(72, 14), id="conv"),
        pytest.param(product(32, 128, 256), id="matmul"),
    ],
)
def test_nothing_large_is_left_out(model):
    case = Case(model)
    config = case.space.default
    assert case.estimate(config) == pytest.approx(case.count(config), rel=0.05)


def test_constants_stay_only_where_a_layer_is_alone():
    """In a network, other layers need the rows, so that the compiler chooses as if they did not."""
    case = Case(product(32, 128, 256))
    table = case.space.table([case.space.default])
    (alone,), (within,) = case.space.cycles(table), case.space.cycles_with(table, DDR)
    assert 1.3 * alone < within
    assert case.space.cycles_alone(table, DDR) == [alone]
    assert case.space.features(table)["estimate"] == [within]
