"""3x3 convolutions by transforms: the right sums, small errors, and where they are taken."""

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.cpu.graph import processor_graph
from daedal.compiler.graph.interpreter import run
from daedal.compiler.ops.graph import convolution, integer_convolution, winograd
from daedal.compiler.ops.graph.factors import PAIRS
from daedal.compiler.ops.graph.operation import GraphOperation
from daedal.runtime.host_code import HostProgram

BOUND = 1e-5
"""The largest error relative to the largest result, as the module states."""


def computed(
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, ...],
    outs: int,
    *,
    kernel: int = 3,
    scale: float = 1.0,
    **attrs: object,
) -> tuple[np.ndarray, np.ndarray, int]:
    """A convolution behind a ReLU of a 1x1 convolution: the result, that in float64, and rows of
    the tiles of transforms, 0 where it was computed without."""
    rng = np.random.default_rng(outs)
    channels = shape[1]
    first = np.eye(channels, dtype=np.float32)[:, :, None, None]
    weights = rng.normal(size=(outs, channels, kernel, kernel)).astype(np.float32)
    maker = QdqModel(opset=21)
    y = maker.op("Relu", maker.op("Conv", maker.input("x", shape), maker.constant(first)))
    maker.op("Conv", y, maker.constant(weights), output="y", **attrs)
    seen: list[int] = []

    def spy(operation: GraphOperation) -> winograd.Transform | None:
        transform = winograd.real_transform(operation)
        seen.append(0 if transform is None else transform.tile)
        return transform

    monkeypatch.setattr(convolution, "real_transform", spy)
    program = HostProgram(build_host_code(maker.model("y")))
    x = (rng.normal(size=shape) * scale).astype(np.float32)
    (found,) = program.run({"x": x}).values()
    top, left, bottom, right = attrs.get("pads", (0, 0, 0, 0))  # type: ignore[misc]
    padded = np.pad(np.maximum(x, 0), ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(2, 3))
    stride = attrs.get("strides", (1, 1))[0]  # type: ignore[index]
    windows = windows[:, :, ::stride, ::stride].astype(np.float64)
    wanted = np.einsum("ncijuv,ocuv->noij", windows, weights, optimize=True)
    return found, wanted, seen[-1]


@pytest.mark.parametrize(
    ("shape", "outs", "pads", "tile"),
    [
        ((1, 32, 14, 14), 32, [1, 1, 1, 1], 4),
        ((1, 40, 13, 18), 33, [1, 1, 1, 1], 4),
        ((2, 36, 12, 9), 48, [0, 2, 1, 0], 4),
        ((3, 32, 10, 10), 32, [0, 0, 0, 0], 4),
        ((1, 32, 7, 7), 32, [1, 1, 1, 1], 2),
        ((1, 33, 6, 12), 40, [1, 0, 1, 2], 2),
        ((3, 48, 5, 6), 33, [0, 0, 0, 0], 2),
    ],
)
def test_sums_are_right_for_all_shapes(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], outs: int, pads: list[int], tile: int
) -> None:
    found, wanted, used = computed(monkeypatch, shape, outs, pads=pads)
    assert used == tile
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0, atol=BOUND * np.abs(wanted).max())


@pytest.mark.parametrize("scale", [1e-20, 1e20])
@pytest.mark.parametrize(("size", "tile"), [(18, 4), (9, 2)])
def test_scales_change_nothing(
    monkeypatch: pytest.MonkeyPatch, size: int, tile: int, scale: float
) -> None:
    found, wanted, used = computed(monkeypatch, (1, 256, size, size), 32, scale=scale)
    assert used == tile
    np.testing.assert_allclose(found, wanted, rtol=0, atol=BOUND * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("shape", "outs", "attrs"),
    [
        ((1, 32, 7, 7), 32, {}),
        ((1, 16, 20, 20), 32, {}),
        ((1, 32, 20, 20), 32, {"strides": [2, 2]}),
        ((1, 32, 20, 20), 32, {"kernel": 1}),
    ],
    ids=["few tiles", "few channels", "steps", "1x1"],
)
def test_others_are_computed_directly(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], outs: int, attrs: dict[str, object]
) -> None:
    found, wanted, tile = computed(monkeypatch, shape, outs, **attrs)  # type: ignore[arg-type]
    assert tile == 0
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("channels", "weight", "size", "tile"),
    [(229, 127, 14, 4), (230, 127, 14, 0), (64, -128, 14, 4), (256, 127, 7, 2), (33, -128, 8, 2)],
)
def test_sums_of_integers_are_exact_up_to_their_bound(
    monkeypatch: pytest.MonkeyPatch, channels: int, weight: int, size: int, tile: int
) -> None:
    """All products have the largest size and one sign; larger sums are computed directly."""
    maker, shape = QdqModel(opset=21), (1, channels, size, size)
    first = np.eye(channels, dtype=np.int8)[:, :, None, None]
    x = maker.requantized(maker.input("x", shape), 1.0, 0)
    x = maker.requantized(maker.op("Conv", x, maker.weights(first, 1.0)), 1.0, 0)
    weights = np.full((32, channels, 3, 3), weight, np.int8)
    weights[1::2] = np.random.default_rng(1).integers(-50, 50, weights[1::2].shape)
    y = maker.op("Conv", x, maker.weights(weights, 1.0), pads=[1, 1, 1, 1])
    maker.quantize(y, 3e5, 0, "int8", "y")
    model = maker.model("y", dtype="int8")
    seen: list[int] = []

    def spy(operation: GraphOperation) -> winograd.Transform | None:
        transform = winograd.integer_transform(operation)
        seen.append(0 if transform is None else transform.tile)
        return transform

    monkeypatch.setattr(integer_convolution, "integer_transform", spy)
    graph, program = processor_graph(model), HostProgram(build_host_code(model, factors=PAIRS))
    assert graph is not None and seen[-1] == tile
    for value in (-128, 127, None):
        drawn = np.random.default_rng(2).integers(-128, 128, shape)
        given = {"x": (drawn if value is None else np.full(shape, value)).astype(np.float32)}
        np.testing.assert_array_equal(program.run(given)["y"], run(graph, given)["y"])


@pytest.mark.parametrize("real", [pair[0] for pair in winograd.TRANSFORMS])
def test_the_matrices_compute_a_filter(real: winograd.Transform) -> None:
    """``A^T ((G g) * (B^T d))`` is the filter g over the elements d."""
    rng = np.random.default_rng(3)
    d, g = rng.normal(size=real.window), rng.normal(size=3)
    found = real.results @ ((real.weights @ g) * (real.elements @ d))
    np.testing.assert_allclose(found, np.correlate(d, g, "valid"))
