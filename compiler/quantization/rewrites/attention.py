"""Rewrites attention in the form that quantizes best, exactly.

Every projection is a product of its own, with scales of its own; scores are scaled in the
projection of the queries; and turned heads (rotary embedding) are a second projection.
"""

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import ints
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.quantization.rewrites.factors import move_factors
from daedal.compiler.quantization.rewrites.patterns import producer
from daedal.compiler.quantization.rewrites.projections import form_of, split_projections
from daedal.compiler.quantization.rewrites.rotations import exchange_of

__all__ = ["normalize_attention"]


def normalize_attention(graph: Graph) -> Graph:
    """Rewrite what is around the products of attention.

    Before -> after; between a dense layer and what uses it, reshapes and transposes may lie::

        matmul(v, transpose(softmax(s)))      ->  transpose(matmul(softmax(s), transpose(v)))
        slice(dense(x, w, b))                 ->  dense(x, w[part], b[part])
        slice(reshape(conv2d(x, w, b)))       ->  reshape(conv2d(x, w[part], b[part]))
        dense(q, m)                           ->  q of dense(x, w * m, b * m)
        mul(dense(x, w, b), c)                ->  dense(x, c * w, c * b)
        mul(matmul(q, k), c)                  ->  matmul(q of dense(x, c * w, c * b), k)
    """
    graph = walk(graph, {"matmul": _multiply_weights_first})
    graph = split_projections(graph)
    graph = walk(graph, {"dense": _turn_weights})
    return move_factors(graph)


def _multiply_weights_first(graph: Rewriter, node: Node) -> None:
    """Products of values, with channels as rows, and turned weights exchange their operands."""
    values, weights = node.inputs
    turned = producer(graph, weights, "transpose")
    if turned is None or producer(graph, turned.inputs[0], "softmax") is None:
        return
    *outer, rows, columns = range(graph.types[node.output].rank)
    order = (*outer, columns, rows)
    if ints(turned.attrs, "order") != order or graph.types[values].rank != len(order):
        return
    attrs = {"order": order}
    operands = [
        turned.inputs[0],
        graph.add_fresh("transpose", [values], attrs, base=f"{node.output}.values"),
    ]
    product = graph.add_fresh("matmul", operands, base=f"{node.output}.rows", name=node.name)
    graph.add("transpose", [product], attrs, output=node.output)


def _turn_weights(graph: Rewriter, node: Node) -> None:
    """Turned heads become projections by turned weights; those that a norm gives stay products: a
    norm of a second projection takes more cycles."""
    exchange = exchange_of(graph, node)
    form = None if exchange is None else form_of(graph, node.inputs[0])
    if exchange is None or form is None or form.order[-1] != len(form.order) - 1:
        return
    width = len(exchange)
    if form.shape[-1] == width:
        parameters = [
            (item.reshape(*item.shape[:-1], -1, width) @ exchange).reshape(item.shape)
            for item in form.parameters(graph)
        ]
        form.add_projection(graph, parameters, form.shape, node.output)
