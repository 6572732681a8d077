"""Trained networks: every integer operator against onnxruntime and golden layers, and accuracy."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from daedal.checking.integer_reference import compare_operators, integer_layers, run_onnxruntime
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import extract, run, run_all
from daedal.compiler.graph.passes import partition, to_blocked
from daedal.compiler.targets.names import ACCELERATOR
from tests.compiler.graph.qdq_models import passes, random_inputs

Array = npt.NDArray[Any]

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "digits" / "digits_qdq.onnx"
SHARED_MODELS = {
    "mlperf_tiny_resnet8": "model_qdq.onnx",
    "mlperf_tiny_vww_mobilenetv1": "model_qdq.onnx",
    "mnist_pytorch_cnn": "model_qdq.onnx",
    "resnet20_cifar10": "model_convshortcut_qdq.onnx",
}


def check_layers_against_onnxruntime(path: Path, inputs: dict[str, Array]) -> int:
    """Every integer operator, fed the same tensors, is at most 1 from onnxruntime; their number."""
    differences = compare_operators(onnx.load(path), passes(load_onnx(path)), inputs)
    for item in differences:
        assert item.largest <= 1, item
    return len(differences)


def test_digits_operators_are_within_one_of_onnxruntime(rng: np.random.Generator) -> None:
    inputs = random_inputs(load_onnx(DIGITS), rng)
    assert check_layers_against_onnxruntime(DIGITS, inputs) == 8


def test_digits_predictions_equal_onnxruntime() -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="needs scikit-learn's digits")
    graph = passes(load_onnx(DIGITS))
    images = (datasets.load_digits().images / 16).astype(np.float32)[:200, None, None]
    model = DIGITS.read_bytes()
    agree = 0
    for image in images:
        found = run(graph, {"input": image})["probabilities"]
        agree += int(found.argmax() == run_onnxruntime(model, {"input": image})[0].argmax())
    assert agree >= 198


@pytest.mark.parametrize("name", SHARED_MODELS)
def test_operators_are_within_one_of_onnxruntime(
    shared: Path, rng: np.random.Generator, name: str
) -> None:
    path = shared / "models" / name / SHARED_MODELS[name]
    graph = load_onnx(path)
    inputs = random_inputs(graph, rng)
    if name == "mlperf_tiny_resnet8":
        inputs = {key: np.rint(value * 255).astype(np.float32) for key, value in inputs.items()}
    num_layers = check_layers_against_onnxruntime(path, inputs)
    assert num_layers == sum(
        node.op in ("conv2d", "dense", "add", "avg_pool", "max_pool") for node in graph.nodes
    )


@pytest.mark.parametrize("name", ["mlperf_tiny_resnet8", "mlperf_tiny_vww_mobilenetv1"])
def test_layers_are_within_one_of_the_golden_tensors(shared: Path, name: str) -> None:
    """Every layer, fed the golden inputs, against TFLite's reference kernels."""
    folder = shared / "models" / name
    graph = passes(load_onnx(folder / "model_qdq.onnx"))
    golden = dict(np.load(folder / "layers.npz"))
    golden["input_q"] = np.load(folder / "inputs.npz")["x_q"][:2]
    for image in range(2):
        for _, sources, target in integer_layers(graph):
            feeds = {
                source: golden[source][image].reshape(graph.types[source].shape)
                for source in sources
            }
            found = run(extract(graph, sources, [target]), feeds)[target]
            expected = golden[target][image].reshape(found.shape)
            difference = np.abs(found.astype(int) - expected.astype(int))
            assert difference.max() <= 1, f"{target}, image {image}: {difference.max()} apart"


def test_resnet8_predictions_equal_onnxruntime(shared: Path) -> None:
    folder = shared / "models" / "mlperf_tiny_resnet8"
    data = np.load(folder / "inputs.npz")
    difference = data["x_q"][:100].astype(np.int32) - data["zero_point"]
    images = (difference * data["scale"]).astype(np.float32)
    expected = np.load(folder / "outputs.npz")["y_qdq_onnx_i8"][:100].argmax(axis=1)
    graph = passes(load_onnx(folder / "model_qdq.onnx"))
    found = [run(graph, {"input": image[None]})["output"].argmax() for image in images]
    assert int(np.sum(np.array(found) == expected)) >= 98


@pytest.mark.parametrize("blocks", [(16, 16, 1), (8, 16, 1), (16, 8, 1), (4, 4, 3)])
def test_blocked_network_computes_the_same_bytes(
    rng: np.random.Generator, blocks: tuple[int, int, int]
) -> None:
    block_in, block_out, batch = blocks
    plain = passes(load_onnx(DIGITS))
    blocked = to_blocked(plain, block_in=block_in, block_out=block_out, batch=batch)
    inputs = random_inputs(plain, rng)
    expected, found = run_all(plain, inputs), run_all(blocked, inputs)
    parts = partition(blocked)
    (accelerator,) = (part.graph for part in parts if part.target == ACCELERATOR)
    for node in accelerator.nodes:
        type_ = blocked.types[node.output]
        n, c = type_.shape[:2]
        logical = type_.layout.unpack(found[node.output])[:n, :c]
        np.testing.assert_array_equal(logical, expected[node.output], err_msg=node.name)
    values: dict[str, Array] = dict(inputs)
    for part in parts:
        values = run(part.graph, {name: values[name] for name in part.graph.inputs})
    for name in plain.outputs:
        np.testing.assert_array_equal(values[name], expected[name])


def test_depthwise_layout_computes_the_same_bytes(shared: Path, rng: np.random.Generator) -> None:
    folder = shared / "models" / "mlperf_tiny_vww_mobilenetv1"
    plain = passes(load_onnx(folder / "model_qdq.onnx"))
    inputs = random_inputs(plain, rng)
    expected = run(plain, inputs, ["fc0_q"])["fc0_q"]
    for taps in (0, 1, 3):
        blocked = to_blocked(plain, block_in=16, block_out=16, depthwise_taps=taps)
        grouped = [node for node in blocked.nodes if node.attrs.get("groups", 1) != 1]
        assert len(grouped) == 13
        found = run(blocked, inputs, ["fc0_q.plain"])["fc0_q.plain"]
        np.testing.assert_array_equal(found, expected)
