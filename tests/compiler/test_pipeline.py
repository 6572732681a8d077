"""The whole compiler: an ONNX network as one program gives the bytes of the integer graph."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from bench.qdq_model import QdqModel
from daedal.common.errors import ModelError, ScheduleError
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph.layout import DepthwiseLayout
from daedal.compiler.pipeline import compile_graph
from daedal.isa.table import GemmMode, Opcode
from daedal.isa.variant import Variant, load_variant
from daedal.runtime.driver import LoadedProgram
from daedal.sim.timing.device import TimingDevice
from tests.support.accelerator import micro_variant
from tests.support.networks import check_compiled

TINY = load_variant("tiny")
VTA = load_variant("vta")


def _small_network(rng: np.random.Generator, batch: int = 1) -> onnx.ModelProto:
    """Convolutions, a residual addition, both kinds of pooling, a dense layer, softmax."""
    maker = QdqModel()

    def weights(*shape: int) -> str:
        values = rng.integers(-127, 128, shape).astype(np.int8)
        return maker.weights(values, rng.uniform(0.001, 0.01, shape[0]).astype(np.float32))

    x = maker.requantized(maker.input("x", (batch, 3, 9, 8)), 0.05, -3)
    stem = maker.op("Relu", maker.op("Conv", x, weights(12, 3, 3, 3), pads=[1, 1, 1, 1]))
    stem = maker.requantized(stem, 0.04, -128, output="stem_q")
    branch = maker.op("Conv", stem, weights(12, 12, 3, 3), pads=[1, 1, 1, 1])
    branch = maker.requantized(branch, 0.05, 4)
    total = maker.requantized(maker.op("Add", stem, branch), 0.06, -11)
    pooled = maker.op("MaxPool", total, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    pooled = maker.requantized(pooled, 0.06, -11)
    smooth = maker.op("AveragePool", pooled, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    smooth = maker.requantized(smooth, 0.05, -20)
    mean = maker.requantized(maker.op("GlobalAveragePool", smooth), 0.03, -30)
    flat = maker.op("Flatten", mean)
    logits = maker.op("Gemm", flat, weights(10, 12), transB=1)
    logits = maker.requantized(logits, 0.1, 7, output="logits_q")
    return maker.model(maker.op("Softmax", logits))


@pytest.mark.parametrize(
    ("variant", "batch"),
    [
        (TINY, 1),
        (TINY, 2),
        (micro_variant(acc_bytes=4096, out_bytes=1024), 1),
        (TINY.replace("batch2", batch=2), 3),
        (VTA, 1),
        (TINY.replace("wide_in", block_in=16, depthwise_taps=0), 1),
        (TINY.replace("wide_out", block_out=16, depthwise_taps=0), 1),
    ],
    ids=["tiny", "tiny two images", "micro", "batch of two", "vta", "wide in", "wide out"],
)
def test_a_small_network(variant: Variant, batch: int, rng):
    graph = load_onnx(_small_network(rng, batch).SerializeToString())
    compiled = compile_graph(graph, variant)
    check_compiled(compiled, rng)
    assert [layer.op for layer in compiled.launch.layers] == [
        "q_conv2d",
        "q_conv2d_add",
        "q_max_pool",
        "q_avg_pool",
        "q_avg_pool",
        "q_conv2d",
    ]
    assert compiled.launch.layers[0].macs == batch * 12 * 9 * 8 * 3 * 9
    assert [node.op for node in compiled.host_parts[-1].nodes][-1] == "softmax"


def test_a_part_of_a_network(rng):
    graph = load_onnx(_small_network(rng).SerializeToString())
    compiled = compile_graph(graph, TINY, from_tensors=["stem_q"], to_tensors=["logits_q"])
    assert [layer.tag for layer in compiled.launch.layers] == list(range(5))
    check_compiled(compiled, rng)


def test_dumps_and_reports_follow_the_steps(rng, tmp_path: Path):
    graph = load_onnx(_small_network(rng).SerializeToString())
    said: list[str] = []
    compile_graph(graph, TINY, dump_dir=tmp_path / "dump", report=said.append)
    names = [path.name for path in sorted((tmp_path / "dump").iterdir())]
    assert names[0] == "000_imported.txt"
    assert "006_lower_qdq.txt" in names
    assert sum(name.endswith(".tir.txt") for name in names) == 6
    assert sum(name.endswith(".segment.txt") for name in names) == 6
    assert said[-1] == "linking"
    # A file gets one line for what is before the colon.
    assert {text.partition(":")[0] for text in said} == {
        "graph passes",
        "compiling layers",
        "linking",
    }


def test_compiling_twice_gives_the_same_bytes(rng):
    graph = load_onnx(_small_network(rng).SerializeToString())
    one, two = (compile_graph(graph, TINY).launch.program.to_bytes() for _ in range(2))
    assert one == two


def test_what_the_variant_cannot_run_is_left_to_the_host(rng):
    variant = TINY.replace("narrow", block_in=16, acc_bytes=128, depthwise_taps=0)
    reason = "must fit scratchpad 'acc'"
    graph = load_onnx(_small_network(rng).SerializeToString())
    compiled = compile_graph(graph, variant, host=None)
    assert all(reason in sentence for sentence in compiled.reasons.values())
    assert compiled.launches and compiled.reasons
    left = {node.op for part in compiled.host_parts for node in part.nodes}
    assert left & {"conv2d", "max_pool"}


def test_a_model_of_which_nothing_fits_is_refused(rng):
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 5, 9, 8)), 0.05, -3)
    w = maker.weights(rng.integers(-127, 127, (5, 1, 3, 3)).astype(np.int8), 0.01)
    model = maker.model(maker.requantized(maker.op("Conv", x, w, group=5), 0.1, 0))
    with pytest.raises(ScheduleError, match="must fit scratchpad 'inp'"):
        compile_graph(load_onnx(model.SerializeToString()), TINY.replace("narrow", inp_bytes=32))


def test_a_float_model_is_refused():
    maker = QdqModel()
    y = maker.op("Relu", maker.input("x", (1, 3, 4, 4)))
    with pytest.raises(ModelError, match="quantize it"):
        compile_graph(load_onnx(maker.model(y).SerializeToString()), TINY)


@pytest.mark.parametrize("name", ["tiny", "vta"])
def test_resnet8(name: str, shared: Path, rng):
    model = shared / "models" / "mlperf_tiny_resnet8" / "model_qdq.onnx"
    compiled = compile_graph(load_onnx(model.read_bytes()), load_variant(name))
    assert sum(layer.macs for layer in compiled.launch.layers) == 12_501_632
    check_compiled(compiled, rng)


def _separable_network(rng: np.random.Generator, batch: int) -> onnx.ModelProto:
    """Depthwise convolutions of odd channels and maps, with a pointwise one between them."""
    maker = QdqModel()

    def layer(x: str, shape: tuple[int, ...], zero_point: int, **attrs: object) -> str:
        values = rng.integers(-127, 128, shape).astype(np.int8)
        weights = maker.weights(values, rng.uniform(0.002, 0.02, shape[0]).astype(np.float32))
        return maker.requantized(maker.op("Conv", x, weights, **attrs), 0.05, zero_point)

    x = maker.requantized(maker.input("x", (batch, 13, 11, 9)), 0.05, -3)
    x = layer(x, (13, 1, 3, 3), -7, group=13, pads=[1, 1, 1, 1], strides=[2, 1])
    x = layer(x, (27, 13, 1, 1), 11)
    x = layer(x, (27, 1, 5, 5), -128, group=27, pads=[2, 0, 1, 2])
    layer(x, (54, 1, 2, 3), 5, group=27, dilations=[2, 2])
    return maker.model(maker.nodes[-1].output[0])


DENSE, ONE, THREE = GemmMode.DENSE, GemmMode.DEPTHWISE, GemmMode.DEPTHWISE3


@pytest.mark.parametrize(
    ("variant", "batch", "modes"),
    [
        (TINY, 1, {DENSE, THREE}),
        (TINY.replace("one_tap", depthwise_taps=1), 2, {DENSE, ONE}),
        (TINY.replace("batch2", batch=2), 3, {DENSE, THREE}),
        (VTA, 1, {GemmMode.DENSE_OUT, THREE}),
        (VTA.replace("plain", gemm_reads_out=False), 1, {DENSE, THREE}),
        (VTA.replace("packed_one_tap", depthwise_taps=1), 1, {GemmMode.DENSE_OUT, ONE}),
        (TINY.replace("none", depthwise_taps=0), 1, {DENSE}),
    ],
    ids=["tiny", "one tap", "batch of two", "vta", "plain", "packed one tap", "none"],
)
def test_a_separable_network(variant: Variant, batch: int, modes: set[GemmMode], rng):
    """Several outputs of one channel stay dense: lanes would have to change places."""
    graph = load_onnx(_separable_network(rng, batch).SerializeToString())
    compiled = compile_graph(graph, variant)
    check_compiled(compiled, rng)
    products = [i for i in compiled.launch.program.instructions if i.opcode is Opcode.GEMM]
    assert {GemmMode(item.mode) for item in products} == modes
    types = compiled.launch.graph.types
    kept = [
        isinstance(types[node.inputs[1]].layout, DepthwiseLayout)
        for node in compiled.launch.graph.nodes
    ]
    assert kept == [len(modes) > 1, False, len(modes) > 1, False]


def test_mobilenet(shared: Path, rng):
    """Depthwise layers cost their taps, not the zeros between groups."""
    model = shared / "models" / "mlperf_tiny_vww_mobilenetv1" / "model_qdq.onnx"
    compiled = compile_graph(load_onnx(model.read_bytes()), VTA)
    check_compiled(compiled, rng)
    assert sum(layer.macs for layer in compiled.launch.layers) == 7_489_664
    device = TimingDevice(VTA)
    loaded = LoadedProgram.place(compiled.launch.program, device)
    cycles = device.launch(compiled.launch.program, loaded.bases).cycles
    assert cycles is not None and cycles < 120_000
