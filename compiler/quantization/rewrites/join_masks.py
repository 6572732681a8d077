"""Makes one sum of all constants that are added to the scores of attention."""

import numpy as np
import onnx
from onnx import helper

from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.graph.fixpoint import to_fixpoint
from daedal.compiler.quantization.network import Array, Network
from daedal.compiler.quantization.rewrites.edges import Edges

__all__ = ["join_masks"]

_HIDES = -1e4
"""A number that replaces a score, and is as low as this, may as well be added to it: the weight is
0."""


def join_masks(network: Network) -> None:
    """Join constants in front of a softmax over the last axis.

    Before -> after::

        Where(c, s, v)                          ->  Add(s, where(c, 0, v))     v of -10000 and less
        Add(Add(s, a), b)                       ->  Add(s, a + b)
        Reshape(Add(Reshape(s), a), shape(s))   ->  Add(s, reshape(a))
        Where(IsNaN(p), 0, p)                   ->  p       where a score of each query counts
    """
    _join(network)
    edges = Edges.of(network)
    names = {
        node.output[0]: guarded
        for node in network.nodes
        if (guarded := _never_nan(edges, node)) is not None
    }
    network.rename_operands(names)
    network.drop_unread()


def _never_nan(edges: Edges, node: onnx.NodeProto) -> str | None:
    """The softmax that a Where replaces by 0 where it is no number, and which always is one: of
    scores that are a product, of which a constant mask leaves one for each query."""
    guard = edges.producer(node.input[0], "IsNaN") if node.op_type == "Where" else None
    if guard is None or node.input[2] != guard.input[0]:
        return None
    zero = edges.network.constants.get(node.input[1])
    softmax = edges.producer(node.input[2], "Softmax")
    if zero is None or zero.any() or softmax is None or not _is_over_last(edges, softmax):
        return None
    found = _sum(edges, softmax.input[0])
    scores, mask = (softmax.input[0], np.zeros(1)) if found is None else found
    counts = np.isfinite(np.max(np.atleast_1d(mask), axis=-1)).all()
    return str(node.input[2]) if counts and edges.producer(scores, "MatMul") is not None else None


def _join(network: Network) -> None:
    """Join all constants that are added to the scores of a softmax."""
    to_fixpoint("join_masks", network, _join_one, _size)


def _join_one(network: Network) -> Network | None:
    edges = Edges.of(network)
    for node in network.nodes:
        if node.op_type == "Softmax" and _is_over_last(edges, node):
            found = _joined(edges, node.input[0])
            if found is not None:
                scores, added = found
                _replace(edges, node, scores, added)
                network.drop_unread()
                return network
    return None


def _size(network: Network) -> tuple[int, int]:
    """Two sums become one, or another operator becomes a sum."""
    return len(network.nodes), sum(node.op_type != "Add" for node in network.nodes)


def _is_over_last(edges: Edges, node: onnx.NodeProto) -> bool:
    rank = len(edges.shapes.get(node.input[0], ()))
    return rank > 1 and attribute(node, "axis", -1) in (-1, rank - 1)


def _joined(edges: Edges, name: str) -> tuple[str, Array] | None:
    """The tensor and the constant that `name` is the sum of, if it is not that already."""
    outer = _sum(edges, name)
    if outer is None:
        return _other_sum(edges, name)
    inner = _sum(edges, outer[0]) or _other_sum(edges, outer[0])
    return None if inner is None else (inner[0], inner[1] + outer[1])


def _other_sum(edges: Edges, name: str) -> tuple[str, Array] | None:
    """The operands of what is a sum, but no Add, if only one node reads it."""
    node = edges.producers.get(name)
    if node is None or not edges.network.has_one_user(name, edges.users):
        return None
    if node.op_type == "Where":
        return _hidden(edges, node)
    return _behind_view(edges, node) if node.op_type == "Reshape" else None


def _sum(edges: Edges, name: str) -> tuple[str, Array] | None:
    """The operands of an Add of a constant that only one node reads and that has its shape."""
    node = edges.producer(name, "Add")
    if node is None or not edges.network.has_one_user(name, edges.users):
        return None
    for x, other in (tuple(node.input), tuple(reversed(node.input))):
        value = edges.network.constants.get(other)
        if value is not None and edges.shapes.get(x) == edges.shapes.get(name):
            return x, value
    return None


def _hidden(edges: Edges, node: onnx.NodeProto) -> tuple[str, Array] | None:
    """A Where whose condition is constant, and one of whose operands is a constant that hides. Some
    score of each query must count: of a query without one, all weights are equal."""
    constants = edges.network.constants
    condition, *operands = node.input
    if condition not in constants:
        return None
    for x, other, keeps in (
        (*operands, constants[condition]),
        (*operands[::-1], ~constants[condition]),
    ):
        value = constants.get(other)
        if value is None or edges.shapes.get(x) != edges.shapes.get(node.output[0]):
            continue
        counts = np.atleast_1d(keeps).any(axis=-1).all()
        if value.dtype == np.float32 and (value <= _HIDES).all() and counts:
            return x, np.where(keeps, np.float32(0), value)
    return None


def _behind_view(edges: Edges, node: onnx.NodeProto) -> tuple[str, Array] | None:
    """A sum with other axes than the scores, which are restored behind it."""
    found = _sum(edges, node.input[0])
    view = None if found is None else edges.producer(found[0], "Reshape")
    if found is None or view is None:
        return None
    scores, shape = view.input[0], edges.shapes.get(node.output[0])
    if shape is None or edges.shapes.get(scores) != shape:
        return None
    if not edges.network.has_one_user(found[0], edges.users):
        return None
    return scores, np.broadcast_to(found[1], edges.shapes[found[0]]).reshape(shape)


def _replace(edges: Edges, node: onnx.NodeProto, scores: str, added: Array) -> None:
    """Let a softmax read the sum of `scores` and `added`."""
    network = edges.network
    total = network.fresh(f"{node.output[0]}_masked")
    mask = network.add_constant(f"{total}_by", np.ascontiguousarray(added, dtype=np.float32))
    add = helper.make_node("Add", [scores, mask], [total], name=total)
    network.nodes.insert(network.nodes.index(node), add)
    node.input[0] = total
