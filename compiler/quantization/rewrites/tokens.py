"""Adds constant tokens to others in the form that integers compute, exactly."""

from collections.abc import Sequence

import numpy as np

from daedal.compiler.graph.dataflow import Dataflow, sole_producer
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.quantization.rewrites.patterns import both_orders, constant_of

__all__ = ["pad_tokens"]

_TOKENS = 1
"""Axis of the tokens in (batch, tokens, channels)."""

_RANK = 3


def pad_tokens(graph: Graph) -> Graph:
    """Write a concat of constant tokens and others as a pad and a sum, with a constant that is
    added behind it.

    Before::

        t = concat(token, x) axis=1         # const token: float32[1,1,16], x: float32[1,5,16]
        y = add(t, positions)               # may be missing

    After::

        p = pad(x) pads=0,1,0,0,0,0
        y = add(p, concat(token, 0) + positions)
    """
    return rewrite(rewrite(graph, {"add": _pad}), {"concat": _pad_alone})


def _pad(graph: Rewriter, node: Node) -> None:
    for joined, name in both_orders(node):
        join, positions = sole_producer(graph, joined, ("concat",)), constant_of(graph, name)
        if join is None or positions is None or graph.types[joined] != graph.types[node.output]:
            continue
        if _joins_tokens(graph, join):
            _add_sum(graph, join, node, positions)
            return


def _pad_alone(graph: Rewriter, node: Node) -> None:
    if _joins_tokens(graph, node):
        _add_sum(graph, node, node, np.float32(0))


def _add_sum(graph: Rewriter, join: Node, node: Node, positions: Array | np.float32) -> None:
    """Replace `node` by the sum of `join`, padded, and of all constants."""
    computed = [part for part in join.inputs if not graph.is_constant(part)]
    pads, tokens = _tokens(graph, join.inputs)
    base = node.output
    padded = graph.add_fresh("pad", computed, {"pads": pads}, base=f"{base}.padded")
    added = graph.fresh_constant(f"{base}.tokens", tokens + positions)
    graph.add("add", [padded, added], output=base, name=node.name)


def _joins_tokens(graph: Dataflow, join: Node) -> bool:
    """Whether constant tokens are joined to one tensor."""
    computed = [part for part in join.inputs if not graph.is_constant(part)]
    is_of_tokens = graph.types[join.output].rank == _RANK and whole(join.attrs, "axis") == _TOKENS
    return is_of_tokens and len(computed) == 1 < len(join.inputs)


def _tokens(graph: Dataflow, names: Sequence[str]) -> tuple[tuple[int, ...], Array]:
    """Pads in place of all tokens but those of the one tensor that is computed; and all tokens, of
    which these are 0."""
    parts = [
        graph.constant(name) if graph.is_constant(name) else np.zeros(kind.shape, kind.dtype)
        for name in names
        for kind in [graph.types[name]]
    ]
    (place,) = (index for index, name in enumerate(names) if not graph.is_constant(name))
    before, after = (
        sum(part.shape[_TOKENS] for part in some) for some in (parts[:place], parts[place + 1 :])
    )
    return (0, before, 0, 0, after, 0), np.concatenate(parts, axis=_TOKENS)
