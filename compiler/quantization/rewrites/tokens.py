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
    """Write a concat of constant tokens and others, and a constant sum, as a pad and a sum.

    Before::

        t = concat(token, x) axis=1         # const token: float32[1,1,16], x: float32[1,5,16]
        y = add(t, positions)

    After::

        p = pad(x) pads=0,1,0,0,0,0
        y = add(p, concat(token, 0) + positions)
    """
    return rewrite(graph, {"add": _pad})


def _pad(graph: Rewriter, node: Node) -> None:
    for joined, name in both_orders(node):
        join, positions = sole_producer(graph, joined, ("concat",)), constant_of(graph, name)
        if join is None or positions is None or graph.types[joined] != graph.types[node.output]:
            continue
        computed = [part for part in join.inputs if not graph.is_constant(part)]
        if len(computed) == 1 and _joins_tokens(graph, join):
            pads, tokens = _tokens(graph, join.inputs)
            base = f"{node.output}.padded"
            padded = graph.add_fresh("pad", computed, {"pads": pads}, base=base)
            added = graph.fresh_constant(f"{name}.joined", tokens + positions)
            graph.add("add", [padded, added], output=node.output, name=node.name)
            return


def _joins_tokens(graph: Dataflow, join: Node) -> bool:
    return graph.types[join.output].rank == _RANK and whole(join.attrs, "axis") == _TOKENS


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
