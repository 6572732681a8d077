"""Rotary embedding of a single token as a product with a matrix that the host gives."""

import math
from typing import Any

import numpy as np
import onnx
from onnx import helper

from daedal.compiler.quantization.network import Array, Network
from daedal.compiler.quantization.onnx_given import given_tensors
from daedal.compiler.quantization.rewrites.caches import ROWS
from daedal.compiler.quantization.rewrites.edges import Edges
from daedal.compiler.quantization.rewrites.halves import turn, turned_heads

__all__ = ["multiply_rotations"]


def multiply_rotations(network: Network) -> None:
    """Rotate heads of a single token by one product.

    Of a token, loading weights takes longest, and a second projection for the turned halves
    (`normalize_attention`) has as many as the first. The matrix is the same for all heads and
    layers; as many heads as fill a block are a row of the product.

    Before -> after, for 8 heads of 8 channels::

        Add(Mul(q, cos), Mul(Concat(Neg(Slice(q)), Slice(q)), sin))     # [1,8,1,8]
        Reshape(MatMul(Reshape(q), Reshape(Add(Mul(1, cos), Mul(t, sin)))))     # [4,16] by [16,16]
    """
    edges = Edges.of(network)
    given = given_tensors(network)
    matrices: dict[tuple[str, str, int], str] = {}

    def rule(node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        found = _rotation(edges, node, given)
        return None if found is None else _product(edges, node, *found, matrices)

    network.rewrite(rule)
    network.drop_unread()


def _rotation(
    edges: Edges, node: onnx.NodeProto, given: frozenset[str]
) -> tuple[str, str, str] | None:
    """Heads, and the names of cosines and sines, if the sum `node` rotates the heads of a token."""
    if node.op_type != "Add":
        return None
    for first, second in (tuple(node.input), tuple(reversed(node.input))):
        plain, turned = edges.producer(first, "Mul"), edges.producer(second, "Mul")
        if plain is None or turned is None:
            return None
        for heads, cosines in (tuple(plain.input), tuple(reversed(plain.input))):
            for halves, sines in (tuple(turned.input), tuple(reversed(turned.input))):
                shape = edges.shapes.get(heads, ())
                whole = bool(shape) and turned_heads(edges, halves) == (heads, shape[-1])
                if not whole or not {cosines, sines} <= given:
                    continue
                rows = [edges.shapes.get(name, ()) for name in (cosines, sines)]
                single = len(shape) == 4 and shape[0] == shape[2] == 1
                if single and all(row == (1, 1, 1, shape[-1]) for row in rows):
                    return heads, cosines, sines
    return None


def _product(
    edges: Edges,
    node: onnx.NodeProto,
    heads: str,
    cosines: str,
    sines: str,
    matrices: dict[tuple[str, str, int], str],
) -> list[onnx.NodeProto]:
    network = edges.network
    shape = edges.shapes[heads]
    width = shape[-1]
    fits = ROWS % width == 0 and shape[1] % (ROWS // width) == 0
    together = ROWS // width if fits else 1
    size = together * width
    nodes: list[onnx.NodeProto] = []

    def add(op_type: str, inputs: list[str], role: str, **attributes: Any) -> str:
        output = network.fresh(f"{node.output[0]}_{role}")
        nodes.append(helper.make_node(op_type, inputs, [output], name=output, **attributes))
        return output

    def constant(role: str, value: Array) -> str:
        return network.add_constant(f"{node.output[0]}_{role}", value)

    key = (cosines, sines, together)
    if key not in matrices:
        eye = np.eye(size, dtype=np.float32)
        parts = [
            add("Mul", [
                constant(role, values),
                add("Concat", [name] * together, f"{role}_row", axis=3) if together > 1 else name,
            ], f"{role}_part")
            for role, values, name in (
                ("ones", eye, cosines), ("turn", turn(eye, width, width), sines)
            )
        ]  # fmt: skip
        square = constant("square", np.array([size, size], dtype=np.int64))
        matrices[key] = add("Reshape", [add("Add", parts, "sum"), square], "matrix")
    rows = constant("rows", np.array([math.prod(shape) // size, size], dtype=np.int64))
    product = add("MatMul", [add("Reshape", [heads, rows], "groups"), matrices[key]], "product")
    full = constant("shape", np.array(shape, dtype=np.int64))
    nodes.append(helper.make_node("Reshape", [product, full], [node.output[0]], name=node.name))
    return nodes
