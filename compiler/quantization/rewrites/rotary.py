"""Rotary embedding of a single token as a product with a matrix that the host gives."""

import math

import numpy as np

from daedal.compiler.graph.dataflow import Dataflow
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.quantization.given import given_tensors
from daedal.compiler.quantization.rewrites.caches import ROWS
from daedal.compiler.quantization.rewrites.halves import Rotation, rotation_of, turn

__all__ = ["multiply_rotations"]


def multiply_rotations(graph: Graph) -> Graph:
    """Rotate heads of a single token by one product.

    Of a token, loading weights takes longest, and a second projection for the turned halves
    (`normalize_attention`) has as many as the first. The matrix is the same for all heads and
    layers; as many heads as fill a block are a row of the product.

    Before, for 8 heads of 8 channels; t(q) is q with halves exchanged::

        y = add(mul(q, cos), mul(t(q), sin))        # float32[1,8,1,8]

    After; 1 is the identity::

        m = reshape(add(mul(1, concat(cos, cos)), mul(t(1), concat(sin, sin)))) shape=16,16
        y = reshape(matmul(reshape(q), m)) shape=1,8,1,8        # [4,16] by [16,16]
    """
    given = given_tensors(graph)
    matrices: dict[tuple[str, str, int], str] = {}

    def rule(graph: Rewriter, node: Node) -> None:
        rotation = rotation_of(graph, node)
        if rotation is not None and _is_of_token(graph, rotation, given):
            _multiply(graph, node, rotation, matrices)

    return walk(graph, {"add": rule})


def _is_of_token(graph: Dataflow, rotation: Rotation, given: frozenset[str]) -> bool:
    """Whether whole heads of a single token are rotated, by rows that the host gives."""
    batch, _, tokens, width = graph.types[rotation.heads].shape
    rows = {rotation.cosines, rotation.sines}
    shapes = {graph.types[name].shape for name in rows}
    return (
        rows <= given
        and (batch, tokens, rotation.rotated) == (1, 1, width)
        and shapes == {(1, 1, 1, width)}
    )


def _multiply(
    graph: Rewriter, node: Node, rotation: Rotation, matrices: dict[tuple[str, str, int], str]
) -> None:
    shape = graph.types[rotation.heads].shape
    _, heads, _, width = shape
    together = ROWS // width if ROWS % width == 0 and heads % (ROWS // width) == 0 else 1
    key = (rotation.cosines, rotation.sines, together)
    if key not in matrices:
        matrices[key] = _matrix(graph, node.output, width, *key)
    rows = {"shape": (math.prod(shape) // (together * width), together * width)}
    groups = graph.add_fresh("reshape", [rotation.heads], rows, base=f"{node.output}.groups")
    product = graph.add_fresh("matmul", [groups, matrices[key]], base=f"{node.output}.product")
    graph.add("reshape", [product], {"shape": shape}, output=node.output, name=node.name)


def _matrix(
    graph: Rewriter, output: str, width: int, cosines: str, sines: str, together: int
) -> str:
    """The matrix by which a row of heads is multiplied."""
    eye = np.eye(together * width, dtype=np.float32)
    parts = []
    for role, values, row in (("ones", eye, cosines), ("turn", turn(eye, width, width), sines)):
        name = graph.fresh_constant(f"{output}.{role}", values)
        rows = graph.add_fresh("concat", [row] * together, {"axis": 3}, base=f"{name}.row")
        parts.append(graph.add_fresh("mul", [name, rows], base=f"{name}.part"))
    total = graph.add_fresh("add", parts, base=f"{output}.sum")
    return graph.add_fresh("reshape", [total], {"shape": eye.shape}, base=f"{output}.matrix")
