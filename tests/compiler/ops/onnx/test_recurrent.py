"""Recurrent operators as tensor expressions: against ONNX's reference evaluator, and for what it
ignores (lengths, activations, clip, coupled gates) against the equations of the specification."""

from typing import Any

import numpy as np
import onnx
import pytest

from daedal.common.errors import UnsupportedError
from daedal.compiler import te
from daedal.compiler.ops.onnx.lower import lower_node
from daedal.compiler.ops.onnx.operation import Operand, ResultType
from daedal.compiler.te.lower import topological
from tests.support.onnx_operators import check_node
from tests.support.onnx_values import check_values, floats

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STATES = {"RNN": 1, "GRU": 1, "LSTM": 2}
STEPS, BATCH, FEATURES, HIDDEN = 5, 2, 3, 4


def operands(op_type: str, directions: int, *, extras: bool = True, steps: int = STEPS) -> Any:
    """Operands in order; with biases, initial states and peepholes where `extras`."""
    gates = GATES[op_type]
    feeds = {
        "x": floats(steps, BATCH, FEATURES),
        "w": floats(directions, gates * HIDDEN, FEATURES) / 2,
        "r": floats(directions, gates * HIDDEN, HIDDEN) / 2,
    }
    if not extras:
        return feeds
    feeds["b"] = floats(directions, 2 * gates * HIDDEN)
    feeds["lengths"] = np.full(BATCH, steps, np.int32)
    feeds["h"] = floats(directions, BATCH, HIDDEN)
    if op_type == "LSTM":
        feeds["c"] = floats(directions, BATCH, HIDDEN)
        feeds["p"] = floats(directions, 3 * HIDDEN)
    return feeds


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("extras", [False, True])
def test_directions(op_type: str, direction: str, extras: bool) -> None:
    feeds = operands(op_type, 2 if direction == "bidirectional" else 1, extras=extras)
    check_node(
        op_type,
        feeds,
        constants=["lengths"],
        results=1 + STATES[op_type],
        hidden_size=HIDDEN,
        direction=direction,
        opset=14,
        atol=1e-5,
    )


@pytest.mark.parametrize("op_type", ["GRU", "LSTM"])
def test_batch_first(op_type: str) -> None:
    feeds = operands(op_type, 2)
    for name in ("x", "h", "c"):
        if name in feeds:
            feeds[name] = np.ascontiguousarray(feeds[name].swapaxes(0, 1))
    attributes = {"hidden_size": HIDDEN, "direction": "bidirectional", "layout": 1}
    results = 1 + STATES[op_type]
    check_node(op_type, feeds, constants=["lengths"], results=results, atol=1e-5, **attributes)


def test_gru_with_the_reset_after_the_product() -> None:
    feeds = operands("GRU", 2)
    attributes = {"hidden_size": HIDDEN, "direction": "bidirectional", "linear_before_reset": 1}
    check_node("GRU", feeds, constants=["lengths"], results=2, atol=1e-5, **attributes)


@pytest.mark.parametrize("steps", [1, 4, 7, 18])
def test_steps(steps: int) -> None:
    feeds = operands("RNN", 1, extras=False, steps=steps)
    check_node("RNN", feeds, results=2, hidden_size=HIDDEN, atol=1e-5)


def test_long_sequences_are_refused() -> None:
    feeds = operands("RNN", 1, extras=False, steps=257)
    with pytest.raises(UnsupportedError, match="at most 256 steps, not 257"):
        check_values("RNN", feeds, [floats(257, 1, BATCH, HIDDEN)], hidden_size=HIDDEN)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


FUNCTIONS: dict[str, Any] = {
    "Relu": lambda x, a, b: np.maximum(x, 0),
    "Sigmoid": lambda x, a, b: sigmoid(x),
    "Tanh": lambda x, a, b: np.tanh(x),
    "Softplus": lambda x, a, b: np.log1p(np.exp(x)),
    "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "Elu": lambda x, a, b: np.where(x >= 0, x, a * np.expm1(x)),
    "LeakyRelu": lambda x, a, b: np.where(x >= 0, x, a * x),
    "ThresholdedRelu": lambda x, a, b: np.where(x > a, x, 0),
    "Affine": lambda x, a, b: a * x + b,
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
}


def rnn(feeds: Any, act: Any, lengths: Any = None) -> list[np.ndarray]:
    """RNN without biases, one direction; `lengths` of the sequences."""
    x, w, r = (feeds[name].astype(np.float64) for name in ("x", "w", "r"))
    h = np.zeros((BATCH, HIDDEN))
    every = np.zeros((len(x), 1, BATCH, HIDDEN))
    for step, item in enumerate(x):
        new = act(item @ w[0].T + h @ r[0].T)
        runs = np.full((BATCH, 1), True) if lengths is None else step < lengths.reshape(-1, 1)
        h = np.where(runs, new, h)
        every[step, 0] = np.where(runs, new, 0)
    return [every.astype(np.float32), h[None].astype(np.float32)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_activations(name: str) -> None:
    feeds = operands("RNN", 1, extras=False)
    given: dict[str, Any] = {"activations": [name]}
    if name in ("Elu", "LeakyRelu", "ThresholdedRelu", "Affine", "HardSigmoid", "ScaledTanh"):
        given["activation_alpha"] = [0.3]
    if name in ("Affine", "HardSigmoid", "ScaledTanh"):
        given["activation_beta"] = [0.4]
    wanted = rnn(feeds, lambda x: FUNCTIONS[name](x, 0.3, 0.4))
    check_values("RNN", feeds, wanted, atol=1e-5, hidden_size=HIDDEN, **given)


def test_default_parameters_and_order_of_parameters() -> None:
    feeds = operands("RNN", 1, extras=False)
    wanted = rnn(feeds, lambda x: FUNCTIONS["HardSigmoid"](x, 0.2, 0.5))
    check_values("RNN", feeds, wanted, atol=1e-5, activations=["hardsigmoid"])
    both = operands("RNN", 2, extras=False)
    first = {**both, "w": both["w"][:1], "r": both["r"][:1]}
    second = {"x": both["x"][::-1], "w": both["w"][1:], "r": both["r"][1:]}
    ahead = rnn(first, lambda x: FUNCTIONS["Sigmoid"](x, 0, 0))
    back = rnn(second, lambda x: FUNCTIONS["Affine"](x, 0.1, 0.2))
    wanted = [
        np.concatenate([ahead[0], back[0][::-1]], axis=1),
        np.concatenate([ahead[1], back[1]]),
    ]
    check_values(
        "RNN",
        both,
        wanted,
        atol=1e-5,
        direction="bidirectional",
        activations=["Sigmoid", "Affine"],
        activation_alpha=[0.1],
        activation_beta=[0.2],
    )
    with pytest.raises(UnsupportedError, match="activation 'Gelu' is not known"):
        check_values("RNN", feeds, wanted, activations=["Gelu"])


@pytest.mark.parametrize("constants", [(), ("lengths",)])
def test_lengths(constants: tuple[str, ...]) -> None:
    feeds = operands("RNN", 1, extras=False)
    lengths = np.asarray([3, 5], np.int32)
    wanted = rnn(feeds, np.tanh, lengths)
    feeds["lengths"] = lengths
    inputs = ["x", "w", "r", "", "lengths"]
    check_values("RNN", feeds, wanted, inputs=inputs, constants=constants, atol=1e-5)


def test_lengths_in_reverse() -> None:
    feeds = operands("RNN", 1, extras=False)
    lengths = np.asarray([3, 5], np.int32)
    wanted = [np.zeros((STEPS, 1, BATCH, HIDDEN), np.float32), np.zeros((1, BATCH, HIDDEN))]
    for item, length in enumerate(lengths):
        turned = {**feeds, "x": feeds["x"][:length][::-1]}
        y, last = rnn(turned, np.tanh)
        wanted[0][:length, :, item] = y[::-1, :, item]
        wanted[1][:, item] = last[:, item]
    feeds["lengths"] = lengths
    check_values(
        "RNN",
        feeds,
        [wanted[0], wanted[1].astype(np.float32)],
        inputs=["x", "w", "r", "", "lengths"],
        direction="reverse",
        atol=1e-5,
    )


def lstm(feeds: Any, *, clip: float, coupled: bool) -> list[np.ndarray]:
    """LSTM without biases and peepholes, forward; `clip` bounds what activations take."""
    x, w, r = (feeds[name].astype(np.float64) for name in ("x", "w", "r"))
    h = c = np.zeros((BATCH, HIDDEN))
    every = []
    for item in x:
        sums = np.clip(item @ w[0].T + h @ r[0].T, -clip, clip)
        i, o, f, g = np.split(sums, 4, axis=1)
        keep = 1 - sigmoid(i) if coupled else sigmoid(f)
        c = keep * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(np.clip(c, -clip, clip))
        every.append(h[None])
    return [np.asarray(item).astype(np.float32) for item in (every, h[None], c[None])]


@pytest.mark.parametrize("clip", [0.2, 100.0])
@pytest.mark.parametrize("coupled", [False, True])
def test_lstm_with_clip_and_coupled_gates(clip: float, coupled: bool) -> None:
    feeds = operands("LSTM", 1, extras=False)
    wanted = lstm(feeds, clip=clip, coupled=coupled)
    attributes = {"clip": clip, "input_forget": int(coupled), "hidden_size": HIDDEN}
    check_values("LSTM", feeds, wanted, atol=1e-5, **attributes)


def test_steps_are_not_stacked_where_nothing_reads_them() -> None:
    feeds = operands("LSTM", 1, extras=False)
    inputs = {name: te.placeholder(array.shape, "float32", name) for name, array in feeds.items()}
    proto = onnx.helper.make_node("LSTM", list(feeds), ["", "h", "c"])
    last = ResultType((1, BATCH, HIDDEN), "float32")
    tensors = lower_node(
        proto,
        14,
        [Operand(tensor, tensor.shape) for tensor in inputs.values()],
        [None, last, last],
        "node",
    )
    wanted = lstm(feeds, clip=100.0, coupled=False)
    found = te.evaluate_tensors(tensors[1:], feeds)
    for one, other in zip(found, wanted[1:], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert not any("stack" in tensor.name for tensor in topological(tensors))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 4e-3), ("float64", 1e-10)])
@pytest.mark.parametrize("op_type", GATES)
def test_dtypes(op_type: str, dtype: str, tolerance: float) -> None:
    feeds = {
        name: array if name == "lengths" else array.astype(dtype)
        for name, array in operands(op_type, 1).items()
    }
    check_node(
        op_type,
        feeds,
        constants=["lengths"],
        results=1 + STATES[op_type],
        rtol=tolerance,
        atol=tolerance,
        hidden_size=HIDDEN,
    )
