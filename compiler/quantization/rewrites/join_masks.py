"""Makes one sum of all constants that are added to the scores of attention."""

import numpy as np

from daedal.compiler.graph.dataflow import Dataflow, is_read_once, producer_of, sole_producer
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.registry import ints
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.quantization.operators import kind_of
from daedal.compiler.quantization.rewrites.patterns import both_orders, constant_of, producer

__all__ = ["join_masks"]

_HIDES = -1e4
"""A number that replaces a score, and is as low as this, may as well be added to it: the weight is
0."""


def join_masks(graph: Graph) -> Graph:
    """Join constants in front of a softmax over the last axis.

    Before -> after::

        onnx(c, s, v) op_type=Where             ->  add(s, where(c, 0, v))      v of -10000 and less
        add(add(s, a), b)                       ->  add(s, a + b)
        reshape(add(reshape(s), a))             ->  add(s, reshape(a))
        onnx(isnan(p), 0, p) op_type=Where      ->  p       where a score of each query counts
    """
    return rewrite(graph, {"softmax": _join, "onnx": _drop_guard})


def _join(graph: Rewriter, node: Node) -> None:
    if not _is_over_last(graph, node):
        return
    found = _joined(graph, node.inputs[0])
    if found is not None:
        scores, added = found
        base = f"{node.output}.masked"
        mask = graph.fresh_constant(f"{base}.by", np.asarray(added, dtype=np.float32))
        graph.replace(node, [graph.add_fresh("add", [scores, mask], base=base)])


def _drop_guard(graph: Rewriter, node: Node) -> None:
    """Drop a Where that replaces weights by 0 where they are no number, if they always are numbers:
    those of scores that are a product, of which a constant mask leaves one for each query."""
    if kind_of(node) != "Where" or len(node.inputs) != 3 or node.output in graph.outputs:
        return
    condition, zero, weights = node.inputs
    guard, softmax = producer(graph, condition, "IsNaN"), producer_of(graph, weights, ("softmax",))
    value = constant_of(graph, zero)
    if guard is None or guard.inputs[0] != weights or value is None or value.any():
        return
    if softmax is None or not _is_over_last(graph, softmax):
        return
    (name,) = softmax.inputs
    scores, mask = _sum(graph, name) or (name, np.zeros(1))
    counts = np.isfinite(np.max(np.atleast_1d(mask), axis=-1)).all()
    if counts and producer_of(graph, scores, ("matmul",)):
        graph.substitute(node.output, weights)


def _is_over_last(graph: Dataflow, softmax: Node) -> bool:
    return ints(softmax.attrs, "axes") == (graph.types[softmax.output].rank - 1,)


def _joined(graph: Dataflow, name: str) -> tuple[str, Array] | None:
    """The tensor and the constant that `name` is the sum of, if it is not that already."""
    outer = _sum(graph, name)
    if outer is None:
        return _other_sum(graph, name)
    inner = _sum(graph, outer[0]) or _other_sum(graph, outer[0])
    return None if inner is None else (inner[0], inner[1] + outer[1])


def _sum(graph: Dataflow, name: str) -> tuple[str, Array] | None:
    """The operands of an add of a constant that only one node reads."""
    node = sole_producer(graph, name, ("add",))
    for x, other in () if node is None else both_orders(node):
        value = constant_of(graph, other)
        if value is not None:
            return x, value
    return None


def _other_sum(graph: Dataflow, name: str) -> tuple[str, Array] | None:
    """The operands of what is a sum, but no add, if only one node reads it."""
    node = producer(graph, name, "Where", "reshape")
    if node is None or not is_read_once(graph, name):
        return None
    return _behind_view(graph, node) if node.op == "reshape" else _hidden(graph, node)


def _hidden(graph: Dataflow, node: Node) -> tuple[str, Array] | None:
    """A Where whose condition is constant, and one of whose operands is a constant that hides. Some
    score of each query must count: of a query without one, all weights are equal."""
    condition = constant_of(graph, node.inputs[0])
    if condition is None or len(node.inputs) != 3:
        return None
    _, kept, other = node.inputs
    for x, hides, keeps in ((kept, other, condition), (other, kept, ~condition)):
        value = constant_of(graph, hides)
        if value is None or (value > _HIDES).any():
            continue
        if np.atleast_1d(keeps).any(axis=-1).all():
            return x, np.where(keeps, np.float32(0), value)
    return None


def _behind_view(graph: Dataflow, node: Node) -> tuple[str, Array] | None:
    """A sum with other axes than the scores, which are restored behind it."""
    found = _sum(graph, node.inputs[0])
    view = None if found is None else sole_producer(graph, found[0], ("reshape",))
    if found is None or view is None:
        return None
    (scores,), total = view.inputs, graph.types[node.inputs[0]]
    if graph.types[scores] != graph.types[node.output]:
        return None
    return scores, np.broadcast_to(found[1], total.shape).reshape(graph.types[scores].shape)
