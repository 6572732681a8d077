"""Sums of wide tensors that cannot leave their bounds lose their REQUANTIZE, others keep it."""

import numpy as np
import pytest

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import AttrValue, Graph
from daedal.compiler.graph.interpreter import run
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED, UNCHANGED_WIDE
from daedal.compiler.graph.passes import exact_sums
from daedal.compiler.graph.types import TensorType

SHAPE = (1, 8, 4, 1)
ONE = np.array([[0, 1 << 16, 16]])
FACTORS = {"multiplier_a": 1, "multiplier_b": 1}
SLICE: dict[str, AttrValue] = {
    "begins": (0, 0, 1, 0),
    "ends": (1, 8, 3, 1),
    "steps": (1, 1, 1, 1),
}


def bounded(builder: GraphBuilder, x: str, steps: int) -> str:
    """`x` within a bound of so many times 256."""
    attrs = {"zero_point": 0, "low": -256 * steps, "high": 256 * steps - 1}
    return builder.add("q_requantize", [x, "same"], attrs, output=f"{x}.{steps}")


def start() -> GraphBuilder:
    builder = GraphBuilder("sums")
    for name in ("x", "y", "z"):
        builder.input(name, TensorType(SHAPE, "int16"))
    builder.constant("same", IDENTITY)
    builder.constant("one", ONE)
    return builder


def ops(graph: Graph) -> dict[str, str]:
    return {node.output: node.op for node in graph.nodes}


def check_equal(before: Graph, after: Graph) -> None:
    rng = np.random.default_rng(1)
    values = rng.choice([-(1 << 15), (1 << 15) - 1, 0, 5], (3, *SHAPE)).astype(np.int16)
    inputs = dict(zip(("x", "y", "z"), values, strict=True))
    expected, found = run(before, inputs), run(after, inputs)
    for name in before.outputs:
        np.testing.assert_array_equal(found[name], expected[name])


def test_a_chain_of_sums_within_16_bits() -> None:
    """Bounds add up, and a slice keeps them."""
    builder = start()
    a = builder.add(
        "q_add",
        [bounded(builder, "x", 40), bounded(builder, "y", 60), "one"],
        {**FACTORS, **UNCHANGED_WIDE},
        output="a",
    )
    builder.add("q_slice", [a, "same"], {**SLICE, **UNCHANGED_WIDE}, output="part")
    builder.add("q_slice", ["z", "same"], {**SLICE, **UNCHANGED_WIDE}, output="other")
    small = bounded(builder, "other", 28)
    builder.add("q_add", ["part", small, "one"], {**FACTORS, **UNCHANGED_WIDE}, output="b")
    builder.add("q_add", ["b", small, "one"], {**FACTORS, **UNCHANGED_WIDE}, output="c")
    before = builder.finish(("c",))
    after = exact_sums(before)
    assert {name: ops(after)[name] for name in "abc"} == {"a": "q_sum", "b": "q_sum", "c": "q_add"}
    assert [after.producers["b"].attrs[side] for side in ("low", "high")] == [-32768, 32765]
    check_equal(before, after)


PARAMETERS = {
    "multiplier": np.array([[0, 1 << 15, 16]]),
    "bias": np.array([[1, 1 << 16, 16]]),
}
"""Of sums that do more than add."""


@pytest.mark.parametrize("kind", ["factor", "bounds", "operand", "narrow", *PARAMETERS])
def test_other_sums_stay(kind: str) -> None:
    builder = start()
    attrs = {**FACTORS, **UNCHANGED_WIDE}
    if kind == "factor":
        attrs["multiplier_b"] = 2
    if kind == "bounds":
        attrs["high"] = 255
    first = "x" if kind == "operand" else bounded(builder, "x", 30)
    params = "one"
    if kind in PARAMETERS:
        params = builder.constant("other", PARAMETERS[kind])
    second = bounded(builder, "y", 30)
    if kind == "narrow":
        second = builder.add("q_requantize", ["y", "same"], UNCHANGED, output="y.narrow")
    builder.add("q_add", [first, second, params], attrs, output="a")
    graph = builder.finish(("a",))
    assert ops(exact_sums(graph)) == ops(graph)


def test_constants_have_the_bounds_of_their_values() -> None:
    builder = start()
    builder.constant("c", np.full(SHAPE, -32768 + 256, dtype=np.int16))
    builder.add(
        "q_add", [bounded(builder, "x", 1), "c", "one"], {**FACTORS, **UNCHANGED_WIDE}, output="a"
    )
    before = builder.finish(("a",))
    after = exact_sums(before)
    assert ops(after)["a"] == "q_sum"
    check_equal(before, after)
