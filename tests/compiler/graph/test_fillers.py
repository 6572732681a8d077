"""Products of maps whose channels fill no block, over parts of a graph."""

import numpy as np
import pytest

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.compiler.graph.passes.attention.align_matmul import check_fillers
from daedal.compiler.graph.types import TensorType
from daedal.compiler.graph.unfit import UnfitLayers

MAP = TensorType((1, 6, 6, 1), "int8")


def first_part() -> Graph:
    """Computes the second operand."""
    builder = GraphBuilder("first")
    builder.input("x", MAP)
    identity = builder.constant("identity", IDENTITY)
    return builder.finish([builder.add("q_requantize", ["x", identity], UNCHANGED, output="b")])


def second_part(zero_a: int, zero_b: int) -> Graph:
    """Multiplies it."""
    builder = GraphBuilder("second")
    builder.input("a", MAP)
    builder.input("b", MAP)
    factor = builder.constant("factor", np.array([1], np.int8))
    params = builder.constant("params", IDENTITY)
    attrs = {"zero_point_a": zero_a, "zero_point_b": zero_b, "columns": 6, **UNCHANGED}
    product = builder.add("q_matmul", ["a", "b", factor, params], attrs, output="y")
    return builder.finish([product])


def test_a_product_of_what_is_packed_anew_needs_a_zero_point_of_zero() -> None:
    """The lanes behind the sixth channel are zeros after packing: (0 + 128) * (0 + 6) is added."""
    first, second = first_part(), second_part(-128, -6)
    with pytest.raises(UnfitLayers, match="from one launch") as caught:
        check_fillers(second, [first, second], block=8)
    assert list(caught.value.errors) == ["y"]


@pytest.mark.parametrize(("zeros", "block"), [((0, -6), 8), ((-128, 0), 8), ((-128, -6), 3)])
def test_others_stay(zeros: tuple[int, int], block: int) -> None:
    second = second_part(*zeros)
    check_fillers(second, [first_part(), second], block=block)


def test_operands_of_the_model_are_padded_by_the_pass() -> None:
    """What no part of the accelerator gives is packed as the pass knows."""
    second = second_part(-128, -6)
    check_fillers(second, [second], block=8)
