"""`shared_factors`: as small as they can be, and refused where a sum would be off."""

import numpy as np
import onnx
import pytest

from bench.qdq_model import QdqModel
from daedal.common.errors import UnsupportedError
from daedal.compiler.graph import run_all
from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.passes.lowering.requantization import shared_factors
from tests.compiler.graph.qdq_models import lower

NODE = Node("add", ("a", "b"), "y")
SHAPE = (1, 8, 4, 4)


def added(first: float, second: float, result: float, op: str = "Add") -> onnx.ModelProto:
    maker = QdqModel()
    a = maker.requantized(maker.input("a", SHAPE), first, 3)
    b = maker.requantized(maker.input("b", SHAPE), second, -9)
    return maker.model(maker.requantized(maker.op(op, a, b), result, 5, output="y_q"))


@pytest.mark.parametrize(
    ("ratios", "found"),
    [
        ((1.0, 1.0), ((1, 1), 0)),
        ((0.5, 0.25), ((2, 1), 2)),
        ((2.0, 2.0), ((2, 2), 0)),
        ((1.0, 0.3), ((16384, 4915), 14)),
    ],
)
def test_powers_of_two_in_common_are_left_out(
    ratios: tuple[float, ...], found: tuple[tuple[int, ...], int]
) -> None:
    assert shared_factors(NODE, ratios, summed=True) == found


@pytest.mark.parametrize(
    "ratios", [(32_767.0, 5.9), (5_000 / 0.16, 0.9 / 0.16), (300.3, 299.7), (5.9, 32_767.0)]
)
def test_ratios_that_a_sum_would_be_wrong_for_are_refused(ratios: tuple[float, ...]) -> None:
    with pytest.raises(UnsupportedError, match="must be comparable, not"):
        shared_factors(NODE, ratios, summed=True)


def test_what_is_not_refused_is_within_one_step(rng: np.random.Generator) -> None:
    """Of sums that are not clipped, in steps of the result."""
    a, b = np.meshgrid(np.arange(-255, 256), np.arange(-255, 256))
    kept = 0
    for _ in range(20):
        ratios = tuple(np.exp2(rng.uniform(-6, 12, 2)).tolist())
        try:
            (first, second), shift = shared_factors(NODE, ratios, summed=True)
        except UnsupportedError:
            continue
        real = ratios[0] * a + ratios[1] * b
        error = np.abs(np.ldexp(first * a + second * b, -shift) - real)
        assert error[np.abs(real) < 255].max() <= 1, ratios
        kept += 1
    assert kept > 5


@pytest.mark.parametrize("op", ["Add", "Sub"])
def test_sums_of_far_scales_are_left_to_the_host(op: str) -> None:
    with pytest.raises(UnsupportedError, match="must be comparable, not"):
        lower(added(5_000.0, 0.9, 0.16, op))


@pytest.mark.parametrize("op", ["Add", "Sub"])
def test_sums_of_equal_scales_multiply_nothing(op: str, rng: np.random.Generator) -> None:
    graph = lower(added(0.1, 0.1, 0.1, op))
    (node,) = (node for node in graph.nodes if node.op == "q_add")
    sign = 1 if op == "Add" else -1
    assert (node.attrs["multiplier_a"], node.attrs["multiplier_b"]) == (1, sign)
    feeds = {name: rng.uniform(-9, 9, SHAPE).astype(np.float32) for name in "ab"}
    found = run_all(graph, feeds)["y_q"]
    a, b = (
        np.clip(np.rint(feeds[n] / np.float32(0.1)) + z, -128, 127)
        for n, z in (("a", 3), ("b", -9))
    )
    wanted = np.clip((a - 3) + sign * (b + 9) + 5, -128, 127)
    np.testing.assert_array_equal(found, wanted)


def test_leaky_relus_of_far_factors_are_left_to_the_host() -> None:
    maker = QdqModel(opset=16)
    x = maker.requantized(maker.input("x", SHAPE), 5_000.0, 3)
    model = maker.model(maker.requantized(maker.op("LeakyRelu", x, alpha=0.0001), 0.16, 5))
    with pytest.raises(UnsupportedError, match="must be comparable, not"):
        lower(model)


def test_products_that_are_not_added_have_errors_of_their_own() -> None:
    """A sum of these is refused."""
    ratios = (3_000.7, 2_999.1)
    assert shared_factors(NODE, ratios, summed=False)
    with pytest.raises(UnsupportedError, match="must be comparable"):
        shared_factors(NODE, ratios, summed=True)
