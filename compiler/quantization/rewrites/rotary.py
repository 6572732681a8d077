"""Rotary embedding of a single token as a product with a matrix that the host gives."""

import math

import numpy as np

from daedal.compiler.graph.dataflow import Dataflow
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.quantization.given import given_tensors
from daedal.compiler.quantization.rewrites.caches import ROWS
from daedal.compiler.quantization.rewrites.rotations import Rotation, rotation_of

__all__ = ["multiply_rotations"]

_Key = tuple[str, str, bytes, int]
"""Tables of a rotation, its matrix, and how many heads are a row."""

_RANK = 4
"""Of heads (batch, heads, tokens, width)."""


def multiply_rotations(graph: Graph) -> Graph:
    """Rotate heads of a single token by one product.

    Of a token, loading weights takes longest, and a second projection for the turned halves
    (`normalize_attention`) has as many as the first. The matrix is the same for all heads and
    layers; as many heads as fill a block are a row of the product.

    Before, for 8 heads of 8 channels::

        y = add(mul(q, cos), mul(dense(q, t), sin))         # float32[1,8,1,8], t: float32[8,8]

    After; 1 is the identity, tt the matrix t twice::

        m = reshape(add(mul(1, concat(cos, cos)), mul(tt, concat(sin, sin)))) shape=16,16
        y = reshape(matmul(reshape(q), m)) shape=1,8,1,8        # [4,16] by [16,16]
    """
    given = given_tensors(graph)
    matrices: dict[_Key, str] = {}

    def rule(graph: Rewriter, node: Node) -> None:
        rotation = rotation_of(graph, node)
        if rotation is not None and _is_of_token(graph, rotation, given):
            _multiply(graph, node, rotation, matrices)

    return walk(graph, {"add": rule})


def _is_of_token(graph: Dataflow, rotation: Rotation, given: frozenset[str]) -> bool:
    """Whether whole heads of a single token are rotated, by rows that the host gives."""
    shape, rows = graph.types[rotation.heads].shape, {rotation.cosines, rotation.sines}
    if len(shape) != _RANK:
        return False
    batch, _, tokens, width = shape
    shapes = {graph.types[name].shape for name in rows}
    return rows <= given and (batch, tokens) == (1, 1) and shapes == {(1, 1, 1, width)}


def _multiply(graph: Rewriter, node: Node, rotation: Rotation, matrices: dict[_Key, str]) -> None:
    shape = graph.types[rotation.heads].shape
    _, heads, _, width = shape
    together = ROWS // width if ROWS % width == 0 and heads % (ROWS // width) == 0 else 1
    key = (rotation.cosines, rotation.sines, rotation.exchange.tobytes(), together)
    if key not in matrices:
        matrices[key] = _matrix(graph, node.output, rotation, together)
    rows = {"shape": (math.prod(shape) // (together * width), together * width)}
    groups = graph.add_fresh("reshape", [rotation.heads], rows, base=f"{node.output}.groups")
    product = graph.add_fresh("matmul", [groups, matrices[key]], base=f"{node.output}.product")
    graph.add("reshape", [product], {"shape": shape}, output=node.output, name=node.name)


def _matrix(graph: Rewriter, output: str, rotation: Rotation, together: int) -> str:
    """The matrix by which a row of heads is multiplied."""
    eye = np.eye(together * len(rotation.exchange), dtype=np.float32)
    turn = np.kron(np.eye(together, dtype=np.float32), rotation.exchange)
    parts = []
    for role, values, row in (("ones", eye, rotation.cosines), ("turn", turn, rotation.sines)):
        name = graph.fresh_constant(f"{output}.{role}", values)
        rows = graph.add_fresh("concat", [row] * together, {"axis": 3}, base=f"{name}.row")
        parts.append(graph.add_fresh("mul", [name, rows], base=f"{name}.part"))
    total = graph.add_fresh("add", parts, base=f"{output}.sum")
    return graph.add_fresh("reshape", [total], {"shape": eye.shape}, base=f"{output}.matrix")
