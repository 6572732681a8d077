"""Normalizations as tensor expressions, against ONNX's reference evaluator or numpy."""

import numpy as np
import pytest

from daedal.common.errors import UnsupportedError
from tests.support.onnx_operators import check_node
from tests.support.onnx_values import check_values, floats

MAPS = [(2, 3, 7), (1, 3, 5, 4), (2, 4, 2, 3, 3)]
TOLERANCES = [("float32", 1e-4), ("float16", 6e-3), ("float64", 1e-7)]


@pytest.mark.parametrize("shape", [(4, 3), *MAPS])
@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCES)
def test_batch_normalization(shape: tuple[int, ...], dtype: str, tolerance: float) -> None:
    channels = shape[1]
    feeds = {
        "x": floats(*shape, dtype=dtype) + 3,
        "scale": floats(channels, dtype=dtype),
        "bias": floats(channels, dtype=dtype),
        "mean": floats(channels, dtype=dtype),
        "variance": np.abs(floats(channels, dtype=dtype)) + np.asarray(0.5, dtype),
    }
    check_node("BatchNormalization", feeds, rtol=tolerance, atol=tolerance, epsilon=1e-3)
    # Before opset 14, ONNX's evaluator computes what training does.
    scale, bias, mean, variance = (
        feeds[name].reshape(-1, *[1] * (len(shape) - 2)).astype(np.float64)
        for name in ("scale", "bias", "mean", "variance")
    )
    wanted = (feeds["x"] - mean) / np.sqrt(variance + 1e-5) * scale + bias
    for opset in (7, 9):
        check_values(
            "BatchNormalization",
            feeds,
            [wanted.astype(dtype)],
            opset=opset,
            rtol=tolerance,
            atol=tolerance,
            momentum=0.8,
        )


def test_training_is_refused() -> None:
    feeds = {name: floats(3) for name in ("scale", "bias", "mean", "variance")}
    x = floats(2, 3)
    with pytest.raises(UnsupportedError, match="training_mode must be 0"):
        check_values("BatchNormalization", {"x": x, **feeds}, [x], training_mode=1)
    with pytest.raises(UnsupportedError, match="result 1 has no tensor expression"):
        check_values("BatchNormalization", {"x": x, **feeds}, [x, x[0]])


@pytest.mark.parametrize("shape", MAPS)
@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCES)
def test_instance_normalization(shape: tuple[int, ...], dtype: str, tolerance: float) -> None:
    feeds = {
        "x": floats(*shape, dtype=dtype),
        "scale": floats(shape[1], dtype=dtype),
        "bias": floats(shape[1], dtype=dtype),
    }
    check_node("InstanceNormalization", feeds, rtol=tolerance, atol=tolerance)
    check_node("InstanceNormalization", feeds, rtol=tolerance, atol=tolerance, epsilon=0.1)


@pytest.mark.parametrize(
    ("shape", "axis"), [((5,), 0), ((3, 5), -1), ((2, 3, 5), 2), ((2, 3, 5), -2), ((2, 3, 4), 0)]
)
@pytest.mark.parametrize("bias", [False, True])
def test_layer_normalization(shape: tuple[int, ...], axis: int, bias: bool) -> None:
    feeds = {"x": floats(*shape) + 2, "scale": floats(*shape[axis:])}
    if bias:
        feeds["bias"] = floats(*shape[axis:])
    check_node("LayerNormalization", feeds, axis=axis, rtol=1e-4, atol=1e-5)
    check_node("LayerNormalization", feeds, results=3, axis=axis, epsilon=0.1, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCES)
def test_layer_normalization_dtypes(dtype: str, tolerance: float) -> None:
    feeds = {name: floats(7, dtype=dtype) for name in ("scale", "bias")}
    feeds = {"x": floats(3, 7, dtype=dtype), **feeds}
    check_node("LayerNormalization", feeds, rtol=tolerance, atol=tolerance)


def test_mean_and_deviation_of_float16_are_float32() -> None:
    x = floats(3, 7, dtype="float16")
    exact = x.astype(np.float64)
    mean = exact.mean(axis=1, keepdims=True)
    inverse = 1 / np.sqrt(exact.var(axis=1, keepdims=True) + 1e-5)
    wanted = [
        ((exact - mean) * inverse).astype(np.float16),
        mean.astype(np.float32),
        inverse.astype(np.float32),
    ]
    feeds = {"x": x, "scale": np.ones(7, np.float16)}
    check_values("LayerNormalization", feeds, wanted, rtol=2e-3)


@pytest.mark.parametrize("shape", [(2, 6, 5), (1, 6, 3, 4)])
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_group_normalization(shape: tuple[int, ...], groups: int) -> None:
    x = floats(*shape) + 1
    feeds = {"x": x, "scale": floats(6), "bias": floats(6)}
    check_node("GroupNormalization", feeds, num_groups=groups, rtol=1e-4, atol=1e-5)
    feeds = {"x": x, "scale": floats(groups), "bias": floats(groups)}
    check_node("GroupNormalization", feeds, opset=18, num_groups=groups, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("shape", "axis"), [((5,), 0), ((3, 5), -1), ((2, 3, 5), 1)])
@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCES)
def test_rms_normalization(shape: tuple[int, ...], axis: int, dtype: str, tolerance: float) -> None:
    feeds = {"x": floats(*shape, dtype=dtype), "scale": floats(*shape[axis:], dtype=dtype)}
    check_node("RMSNormalization", feeds, opset=23, axis=axis, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(2, 7, 3), (2, 7, 3, 4)])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("beta", [0.75, 0.5, 1.0, 0.6])
def test_lrn(shape: tuple[int, ...], size: int, beta: float) -> None:
    """Against the definition: ONNX's evaluator normalizes as many channels as the batch has."""
    x = floats(*shape)
    squares = np.zeros_like(x)
    for channel in range(shape[1]):
        first = max(0, channel - (size - 1) // 2)
        squares[:, channel] = (x[:, first : channel + size // 2 + 1] ** 2).sum(axis=1)
    wanted = x / (1.5 + 0.2 / size * squares) ** beta
    check_values("LRN", {"x": x}, [wanted], size=size, alpha=0.2, beta=beta, bias=1.5)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(("shape", "axis"), [((5,), -1), ((3, 4), 0), ((2, 3, 4), 1)])
def test_lp_normalization(shape: tuple[int, ...], axis: int, p: int) -> None:
    """For p = 1 against numpy: ONNX's evaluator adds signed values."""
    x = floats(*shape)
    x[..., 0] = 0
    norm = (np.abs(x) ** p).sum(axis=axis, keepdims=True) ** (1 / p)
    wanted = np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm)).astype(np.float32)
    check_values("LpNormalization", {"x": x}, [wanted], axis=axis, p=p)
    if p == 2:
        check_node("LpNormalization", {"x": floats(*shape)}, axis=axis)


@pytest.mark.parametrize("axes", [None, [0, 2, 3], [2, 3], [-1], [0, 1, 2, 3]])
def test_mean_variance_normalization(axes: list[int] | None) -> None:
    given = {} if axes is None else {"axes": axes}
    x = floats(2, 3, 4, 5)
    check_node("MeanVarianceNormalization", {"x": x}, rtol=1e-4, atol=1e-5, **given)
