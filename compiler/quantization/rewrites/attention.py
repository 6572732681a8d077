"""Rewrites attention in the form that quantizes best, exactly.

Every projection is a product of its own, with scales of its own; scores are scaled in the
projection of the queries; and a rotation of halves (rotary embedding) is a second projection.
"""

import numpy as np

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import ints
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.quantization.rewrites.factors import move_factors
from daedal.compiler.quantization.rewrites.halves import turn, turned_heads
from daedal.compiler.quantization.rewrites.patterns import producer
from daedal.compiler.quantization.rewrites.projections import form_of, split_projections

__all__ = ["normalize_attention"]


def normalize_attention(graph: Graph) -> Graph:
    """Rewrite what is around the products of attention.

    Before -> after; between a dense layer and what uses it, reshapes and transposes may lie::

        matmul(v, transpose(softmax(s)))      ->  transpose(matmul(softmax(s), transpose(v)))
        slice(dense(x, w, b))                 ->  dense(x, w[part], b[part])
        slice(reshape(conv2d(x, w, b)))       ->  reshape(conv2d(x, w[part], b[part]))
        concat(-slice(q), slice(q))           ->  q of dense(x, w[turned], b[turned])
        concat(-slice(r), slice(r))           ->  dense(r, turned)            r: a norm
        mul(dense(x, w, b), c)                ->  dense(x, c * w, c * b)
        mul(matmul(q, k), c)                  ->  matmul(q of dense(x, c * w, c * b), k)
    """
    graph = walk(graph, {"matmul": _multiply_weights_first})
    graph = split_projections(graph)
    graph = walk(graph, {"concat": _turn_halves})
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


def _turn_halves(graph: Rewriter, node: Node) -> None:
    """Rotations of halves of heads become projections by turned weights; of heads that a norm
    gives, products with a matrix: a norm of a second projection takes more cycles."""
    found = turned_heads(graph, node.output)
    if found is None:
        return
    heads, rotated = found
    form, width = form_of(graph, heads), graph.types[heads].shape[-1]
    if form is not None and form.shape[-1] == width and form.order[-1] == len(form.order) - 1:
        parameters = [turn(item, width, rotated) for item in form.parameters(graph)]
        form.add_projection(graph, parameters, form.shape, node.output)
        return
    matrix = turn(np.eye(width, dtype=np.float32), width, rotated)
    weights = graph.fresh_constant(f"{node.output}.weights", matrix)
    graph.add("dense", [heads, weights], {"transposed": 0}, output=node.output)
