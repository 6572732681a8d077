"""Rewrites attention in the form that quantizes best, exactly.

Every projection is a product of its own, with scales of its own; scores are scaled in the
projection of the queries; and a rotation of halves (rotary embedding) is a second projection.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper

from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.quantization.network import Network
from daedal.compiler.quantization.rewrites.edges import Edges
from daedal.compiler.quantization.rewrites.halves import turn, turned_heads
from daedal.compiler.quantization.rewrites.projections import form_of, split_projections

__all__ = ["normalize_attention"]

_LAYER = "Gemm"


def normalize_attention(network: Network) -> None:
    """Rewrite what is around the products of attention.

    Before -> after; between a Gemm and what uses it, Reshapes and Transposes may lie::

        MatMul(v, Transpose(Softmax(s)))          ->  Transpose(MatMul(Softmax(s), Transpose(v)))
        Slice(Gemm(x, W, b))                      ->  Gemm(x, W[part], b[part])
        Slice(Reshape(Conv(x, W, b)))             ->  Reshape(Conv(x, W[part], b[part]))
        Concat(Neg(Slice(q)), Slice(q))           ->  q of Gemm(x, W[turned], b[turned])
        Concat(Neg(Slice(r)), Slice(r))           ->  Gemm(r, turned)           r: a norm
        Mul(Gemm(x, W, b), c)                     ->  Gemm(x, c * W, c * b)
        Mul(MatMul(q, k), c)                      ->  MatMul(q of Gemm(x, c * W, c * b), k)
    """
    for rewrite in (
        _multiply_weights_first,
        split_projections,
        _turn_halves,
        _scale_projections,
        _scale_queries,
    ):
        rewrite(Edges.of(network))
        network.drop_unread()


def _multiply_weights_first(edges: Edges) -> None:
    """Products of values, with channels as rows, and turned weights exchange their operands."""

    def rule(node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        turned = edges.producer(node.input[1], "Transpose") if node.op_type == "MatMul" else None
        weights = None if turned is None else edges.producer(turned.input[0], "Softmax")
        ranks = {len(edges.shapes.get(name, ())) for name in (*node.input, *node.output)}
        rank = max(ranks)
        order = [*range(rank - 2), rank - 1, rank - 2]
        is_turned = turned is not None and list(attribute(turned, "perm", ())) == order
        if weights is None or not is_turned or len(ranks) > 1:
            return None
        values, product = (
            edges.network.fresh(f"{node.output[0]}_{role}") for role in ("values", "rows")
        )
        return [
            helper.make_node("Transpose", [node.input[0]], [values], name=values, perm=order),
            helper.make_node("MatMul", [weights.output[0], values], [product], name=node.name),
            helper.make_node("Transpose", [product], list(node.output), name=product, perm=order),
        ]

    edges.network.rewrite(rule)


def _turn_halves(edges: Edges) -> None:
    """Rotations of halves of heads become projections by turned weights, or products."""

    def rule(node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        found, output = turned_heads(edges, node.output[0]), node.output[0]
        if found is None:
            return None
        projection = _turned_projection(edges, *found, output)
        return _turned_product(edges, *found, output) if projection is None else projection

    edges.network.rewrite(rule)


def _turned_projection(
    edges: Edges, heads: str, rotated: int, output: str
) -> list[onnx.NodeProto] | None:
    """The projection that gives `output`, the turned heads, if one gives the heads, or None."""
    form = form_of(edges, heads)
    width = edges.shapes[heads][-1]
    if form is None or form.shape[-1] != width or any(order[-1] != 3 for order in form.orders):
        return None
    parameters = [turn(item, width, rotated) for item in edges.parameters(form.layer)]
    return form.projection(edges, parameters, form.shape, output)


def _turned_product(edges: Edges, heads: str, rotated: int, output: str) -> list[onnx.NodeProto]:
    """The product of the heads and a matrix that exchanges their halves, for heads that a norm
    gives: a norm of a second projection takes more cycles."""
    *_, width = shape = edges.shapes[heads]
    rows, product = (edges.network.fresh(f"{output}_{role}") for role in ("rows", "product"))
    matrix = turn(np.eye(width, dtype=np.float32), width, rotated)
    weights = edges.network.add_constant(f"{output}_weights", matrix)
    return [
        edges.network.reshape(heads, (-1, width), rows),
        helper.make_node("Gemm", [rows, weights], [product], name=product),
        edges.network.reshape(product, shape, output),
    ]


def _scale_projections(edges: Edges) -> None:
    """A number that multiplies what a projection gives goes into its weights.

    What reads a product that is removed is scaled through what the product read.
    """
    names: dict[str, str] = {}
    producers = dict(edges.producers)
    edges = replace(edges, producers=producers)
    for node in edges.network.nodes:
        if node.op_type != "Mul" or node.output[0] in edges.network.output_names:
            continue
        for name, number in (tuple(node.input), tuple(reversed(node.input))):
            value = edges.network.constants.get(number)
            if value is None or value.size != 1 or value.ndim > len(edges.shapes.get(name, ())):
                continue
            if _scale(edges, name, np.float32(value.reshape(()))):
                names[node.output[0]] = name
                producers[node.output[0]] = producers[name]
                break
    _remove(edges, names)


def _remove(edges: Edges, names: Mapping[str, str]) -> None:
    """Remove nodes by their outputs; what read them reads what `names` says."""
    network = edges.network
    network.nodes = [node for node in network.nodes if node.output[0] not in names]
    network.rename_operands(names)


def _scale_queries(edges: Edges) -> None:
    """A number by which scores are multiplied goes into the weights of the queries."""
    names: dict[str, str] = {}
    for node in edges.network.nodes:
        if node.op_type != "Mul":
            continue
        for scores, number in (tuple(node.input), tuple(reversed(node.input))):
            product = edges.producer(scores, "MatMul")
            value = edges.network.constants.get(number)
            if product is None or value is None or value.size != 1:
                continue
            if not edges.network.has_one_user(scores, edges.users):
                continue
            factor = np.float32(value.reshape(()))
            if node.output[0] not in edges.network.output_names and _scale(
                edges, product.input[0], factor
            ):
                names[node.output[0]] = scores
    _remove(edges, names)


def _scale(edges: Edges, name: str, factor: np.float32) -> bool:
    """Multiply a tensor through the constants that it is computed from; False if that is not
    possible without a change to others."""
    operands = _scalable(edges, name)
    if operands is None:
        return False
    for node, index in operands:
        value = edges.network.constants[node.input[index]]
        scaled = np.asarray(value * factor)
        node.input[index] = edges.network.add_constant(f"{node.input[index]}_scaled", scaled)
    return True


def _scalable(edges: Edges, name: str) -> list[tuple[onnx.NodeProto, int]] | None:
    """Nodes and operands whose product with a factor is that of the tensor with it."""
    node = edges.producers.get(name)
    if node is None or not edges.network.has_one_user(name, edges.users):
        return None
    constants = edges.network.constants
    if node.op_type == _LAYER:
        if not all(operand in constants for operand in node.input[1:] if operand):
            return None
        return [(node, index) for index in range(1, len(node.input)) if node.input[index]]
    if node.op_type in ("Expand", "Reshape", "Transpose"):
        return _scalable(edges, node.input[0])
    if node.op_type == "Mul":
        number = next(([(node, i)] for i in (0, 1) if node.input[i] in constants), None)
        return number or _scalable(edges, node.input[0]) or _scalable(edges, node.input[1])
    if node.op_type == "Add":
        parts = [_scalable(edges, operand) for operand in node.input]
        return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
    return None
