"""The digits network: its data, its gradients and the committed models."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from examples.digits import layers
from examples.digits.data import demo_images, load_split
from examples.digits.evaluate import accuracy, predict
from examples.digits.export import export_float
from examples.digits.network import INPUT, NETWORK, forward, initialise, loss_and_gradients
from examples.digits.train import augment, main

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "digits"
FLOAT = FOLDER / "digits.onnx"
INT8 = FOLDER / "digits_qdq.onnx"


def constants(path: Path) -> dict[str, np.ndarray]:
    return {c.name: numpy_helper.to_array(c) for c in onnx.load(path).graph.initializer}


def test_split_is_disjoint_complete_and_repeatable() -> None:
    split = load_split()
    assert sorted([*split.train, *split.test]) == list(range(1797))
    assert len(split.test) == 449
    assert len(set(split.calibration)) == 256
    assert set(split.calibration) <= set(split.train)
    again = load_split()
    for part in ("train", "test", "calibration"):
        np.testing.assert_array_equal(getattr(split, part), getattr(again, part))


def test_no_held_out_image_is_trained_on_under_another_index() -> None:
    split = load_split()
    train = {image.tobytes() for image in split.images[split.train]}
    assert not any(image.tobytes() in train for image in split.images[split.test])


def test_images_are_scaled_and_every_digit_is_held_out() -> None:
    split = load_split()
    assert split.images.shape == (1797, 1, 8, 8)
    assert split.images.dtype == np.float32
    assert (split.images.min(), split.images.max()) == (0, 1)
    assert set(split.labels[split.test]) == set(range(10))


def test_demo_images_are_held_out() -> None:
    split = load_split()
    images, labels = demo_images(16)
    np.testing.assert_array_equal(images, split.images[split.test[:16]])
    np.testing.assert_array_equal(labels, split.labels[split.test[:16]])


@pytest.mark.parametrize("n", [0, 450])
def test_demo_images_refuses_a_count_it_does_not_have(n: int) -> None:
    with pytest.raises(ValueError, match=f"n must be from 1 to 449, the held-out images, not {n}"):
        demo_images(n)


def test_conv2d_is_the_sum_it_is_defined_as(rng: np.random.Generator) -> None:
    x, weight, bias = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(2, 3, 3, 3)), np.ones(2)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = np.zeros((2, 2, 4, 5))
    for n, m, h, w in np.ndindex(expected.shape):
        expected[n, m, h, w] = np.sum(padded[n, :, h : h + 3, w : w + 3] * weight[m]) + bias[m]
    np.testing.assert_allclose(layers.conv2d(x, weight, bias), expected, rtol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_are_the_finite_differences(rng: np.random.Generator, smoothing: float) -> None:
    params = initialise(rng)
    # Biases away from zero: at zero, background pixels sit on the kink of the ReLU.
    params = {k: v + rng.normal(0, 0.1, v.shape) for k, v in params.items()}
    images, labels = rng.random((3, 1, 8, 8)), rng.integers(0, 10, 3)
    _, gradients = loss_and_gradients(params, images, labels, smoothing)
    assert gradients.keys() == params.keys()

    step = 1e-6
    for name, value in params.items():
        direction = rng.normal(size=value.shape)
        ends = [
            loss_and_gradients(params | {name: value + s * direction}, images, labels, smoothing)[0]
            for s in (step, -step)
        ]
        numeric = (ends[0] - ends[1]) / (2 * step)
        assert np.sum(gradients[name] * direction) == pytest.approx(numeric, rel=1e-4, abs=1e-7), (
            name
        )


def test_max_pool_shares_the_gradient_among_equal_maxima() -> None:
    x = np.array([[3.0, 3.0], [1.0, 3.0]]).reshape(1, 1, 2, 2)
    grad = layers.max_pool_backward(np.full((1, 1, 1, 1), 6.0), x, 2)
    np.testing.assert_array_equal(grad.reshape(2, 2), [[2, 2], [0, 2]])


def test_augment_shifts_by_at_most_one_pixel(rng: np.random.Generator) -> None:
    image = np.zeros((1, 8, 8), np.float32)
    image[0, 3, 4] = 1
    shifted = augment(np.repeat(image[np.newaxis], 200, axis=0), rng)
    places = {tuple(map(int, np.argwhere(s[0])[0])) for s in shifted}
    assert places == {(y, x) for y in (2, 3, 4) for x in (3, 4, 5)}


@pytest.mark.parametrize("path", [FLOAT, INT8], ids=lambda path: path.name)
def test_committed_model_is_valid_small_and_accurate(path: Path) -> None:
    onnx.checker.check_model(onnx.load(path), full_check=True)
    assert path.stat().st_size < 100_000
    split = load_split()
    assert accuracy(path, *split.select(split.test)) >= 0.97


def test_numpy_network_is_the_float_model() -> None:
    images, _ = demo_images(16)
    logits = forward(constants(FLOAT), images)[NETWORK[-1].name]
    np.testing.assert_allclose(layers.softmax(logits), predict(FLOAT, images), atol=1e-5)


def test_committed_float_model_is_the_export_of_its_parameters() -> None:
    params = {name: value.astype(np.float64) for name, value in constants(FLOAT).items()}
    assert export_float(params).SerializeToString() == FLOAT.read_bytes()


def test_committed_int8_model_is_the_quantized_float_model(tmp_path: Path) -> None:
    shutil.copy(FLOAT, tmp_path)
    main(["--out", str(tmp_path), "--quantize-only"])
    assert (tmp_path / FLOAT.name).read_bytes() == FLOAT.read_bytes()
    assert (tmp_path / INT8.name).read_bytes() == INT8.read_bytes()


def test_int8_model_has_pairs_around_every_operator() -> None:
    graph = onnx.load(INT8).graph
    made_by = {output: node for node in graph.node for output in node.output}
    readers = {name: node for node in graph.node for name in node.input}
    # The quantizer writes operators of the graph, which has no Flatten.
    written = {layer.name: layer.op.replace("Flatten", "Reshape") for layer in NETWORK}
    assert {node.op_type for node in graph.node} == {
        *("QuantizeLinear", "DequantizeLinear", "Relu", "Softmax"),
        *written.values(),
    }
    for layer in NETWORK:
        last, op = made_by[layer.name], written[layer.name]
        node = made_by[last.input[0]] if layer.relu else last
        assert (last.op_type, node.op_type) == ("Relu" if layer.relu else op, op)
        operands = node.input[:1] if op == "Reshape" else node.input
        assert {made_by[name].op_type for name in operands} == {"DequantizeLinear"}
        assert readers[layer.name].op_type == "QuantizeLinear"
    assert readers[INPUT].op_type == "QuantizeLinear"


def test_int8_model_has_the_scales_that_integer_arithmetic_needs() -> None:
    values = constants(INT8)
    nodes = onnx.load(INT8).graph.node
    made_by = {output: node for node in nodes for output in node.output}
    grids = {
        node.input[0]: tuple(values[name] for name in node.input[1:])
        for node in nodes
        if node.op_type == "QuantizeLinear"
    }
    for layer in NETWORK:
        if layer.weight_shape:
            operands = made_by[f"{layer.name}_linear" if layer.relu else layer.name].input[1:]
            (weight, weight_scale, weight_zero), (bias, bias_scale, bias_zero) = (
                [values[name] for name in made_by[operand].input] for operand in operands
            )
            assert (weight.dtype, bias.dtype) == (np.int8, np.int32)
            assert not weight_zero.any()
            assert not bias_zero.any()
            scale, _ = grids[layer.inputs[0]]
            np.testing.assert_array_equal(bias_scale, scale * weight_scale)
        if layer.op in ("MaxPool", "Flatten"):
            assert grids[layer.name] == grids[layer.inputs[0]]
        if layer.relu:
            assert grids[layer.name][1] == -128


def test_quantizing_alone_needs_the_float_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path), "--quantize-only"])
    assert "digits.onnx, which is missing; train first" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_training_again_writes_the_committed_bytes(tmp_path: Path) -> None:
    main(["--out", str(tmp_path)])
    for path in (FLOAT, INT8):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name
