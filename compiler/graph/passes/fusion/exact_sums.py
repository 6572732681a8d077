"""Finds sums of wide tensors that need no REQUANTIZE."""

from daedal.compiler.graph.dataflow import Dataflow, producer_of
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.integer import has_wide_result, is_wide
from daedal.compiler.graph.ops.integer_elementwise import scalar_params
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.passes.value_ranges import bounds_of, changes_nothing
from daedal.compiler.graph.rewrite import Rewriter, rewrite

__all__ = ["exact_sums"]

_MOVES = ("q_slice", "q_requantize")
"""Operators that may leave all values as they are."""

Bounds = tuple[int, int]


def exact_sums(graph: Graph) -> Graph:
    """Replace sums of two wide tensors that cannot leave their bounds, with factors of 1. Exact:
    what is left out would change no value.

    Before::

        a = q_conv2d(...) low=-1024 high=1023 ...
        b = q_conv2d(...) low=-2048 high=2047 ...
        y = q_add(a, b, p) multiplier_a=1 multiplier_b=1 low=-32768 high=32767 zero_point=0

    After::

        y = q_sum(a, b) low=-3072 high=3070
    """
    return rewrite(graph, {"q_add": _replace})


def _replace(graph: Rewriter, node: Node) -> None:
    bounds = _sum_bounds(graph, node)
    if bounds is not None:
        low, high = bounds
        graph.replace(node, node.inputs[:2], {"low": low, "high": high}, op="q_sum")


def _sum_bounds(graph: Dataflow, node: Node) -> Bounds | None:
    """The bounds of a sum that is not rounded and stays within its bounds; None for others."""
    if not has_wide_result(node.attrs):
        return None
    *operands, params = node.inputs
    factors = {whole(node.attrs, f"multiplier_{name}") for name in "ab"}
    if factors != {1} or not all(is_wide(graph.types[name]) for name in operands):
        return None
    if whole(node.attrs, "zero_point") or not _is_one(graph, params):
        return None
    low, high = (sum(sides) for sides in zip(*(_bounds(graph, x) for x in operands), strict=True))
    inside = whole(node.attrs, "low") <= low and high <= whole(node.attrs, "high")
    return (low, high) if inside else None


def _bounds(graph: Dataflow, name: str) -> Bounds:
    """The bounds of a tensor, found before moves that keep all values."""
    move = producer_of(graph, name, _MOVES)
    if move is not None:
        x, params = move.inputs
        if changes_nothing(graph, x, graph.constant(params), move.attrs):
            return _bounds(graph, x)
    return bounds_of(graph, name)


def _is_one(graph: Dataflow, params: str) -> bool:
    """Whether parameters stand for a factor of 1, without a bias."""
    bias, multiplier, shift = map(int, scalar_params(graph.constant(params)))
    return bias == 0 and multiplier == 1 << shift
