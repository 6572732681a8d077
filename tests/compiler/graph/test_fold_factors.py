"""Constants of wide sums are multiplied at compile time."""

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.interpreter import run
from daedal.compiler.graph.layout import ActivationLayout
from daedal.compiler.graph.ops.integer import UNCHANGED_WIDE
from daedal.compiler.graph.passes import fold_factors
from daedal.compiler.graph.types import TensorType

LAYOUT = ActivationLayout(1, 8)
SHAPE = (1, 8, 4, 1)


def a_sum(first: int, second: int, *, constant: int = 5, dtype: str = "int32") -> Graph:
    """A sum of an input and of a blocked constant with these factors."""
    builder = GraphBuilder("sum")
    kind = TensorType(SHAPE, "int32", LAYOUT)
    builder.input("x", kind)
    builder.constant("params", np.tile([0, 1 << 10, 22], (1, 8, 1)))
    other = TensorType(SHAPE, dtype, LAYOUT)
    values = np.full(other.physical_shape, constant, dtype=dtype)
    builder.constant("c", values, other)
    attrs = {"multiplier_a": first, "multiplier_b": second, **UNCHANGED_WIDE}
    builder.add("q_add", ["x", "c", "params"], attrs, output="y")
    return builder.finish(("y",))


def factors(graph: Graph) -> tuple[object, object]:
    attrs = graph.producers["y"].attrs
    return attrs["multiplier_a"], attrs["multiplier_b"]


def test_a_wide_constant_is_multiplied() -> None:
    before = a_sum(300, -700, constant=-32768)
    after = fold_factors(before)
    assert factors(after) == (300, 1)
    constant = after.producers["y"].inputs[1]
    assert after.types[constant] == before.types["c"]
    assert int(after.constant(constant).max()) == 32768 * 700
    x = np.arange(32, dtype=np.int32).reshape(before.types["x"].physical_shape) * 1000 - 16000
    expected, found = run(before, {"x": x}), run(after, {"x": x})
    np.testing.assert_array_equal(found["y"], expected["y"])


def test_what_does_not_fit_stays() -> None:
    """Products of more than 32 bits, and constants of 8 bits, which are loaded as such."""
    assert factors(fold_factors(a_sum(2, 1 << 17, constant=1 << 14))) == (2, 1 << 17)
    assert factors(fold_factors(a_sum(2, 3, dtype="int8"))) == (2, 3)
