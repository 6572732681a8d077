"""Moves changes of scale out of concats, so that they can be fused with the operands' producers."""

import numpy as np

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.integer import IDENTITY, REQUANTIZE_ATTRS
from daedal.compiler.graph.ops.registry import ints
from daedal.compiler.graph.passes.value_ranges import changes_nothing
from daedal.compiler.graph.rewrite import Rewriter, rewrite

__all__ = ["rescale_before_concat"]


def rescale_before_concat(graph: Graph) -> Graph:
    """Bring the operands of blocked concats to the scale of the result first. Exact.

    Then `fuse_operators` fuses the change of scale with the operand's producer, and
    `moves_to_views` stores the operand directly in the result, so the concat costs nothing. Concats
    of several blocks of images have to copy and stay. The new nodes are named after the operands,
    because after fusion they compute them.

    Before::

        c = q_concat(a, b, p) channels=16,32 ...           # a has the scale of c, b has not

    After::

        b.rescaled = q_requantize(b, p.1) ...
        c = q_concat(a, b.rescaled, p.c) channels=16,32    # nothing but a concat
    """
    return rewrite(graph, {"q_concat": _rescale})


def _rescale(graph: Rewriter, node: Node) -> None:
    *maps, params = node.inputs
    rows = graph.constant(params)
    finish = {name: node.attrs[name] for name in REQUANTIZE_ATTRS}
    same = [changes_nothing(graph, name, rows[n], finish) for n, name in enumerate(maps)]
    if all(same) or graph.types[node.output].physical_shape[0] > 1:
        return
    ends = np.cumsum(ints(node.attrs, "channels")).tolist()
    for number, (name, unchanged) in enumerate(zip(maps, same, strict=True)):
        if unchanged:
            continue
        rescaled = maps[number] = graph.fresh_name(f"{name}.rescaled")
        own = graph.fresh_constant(f"{rescaled}.params", rows[number : number + 1])
        graph.add("q_requantize", [name, own], finish, output=rescaled, name=name)
        images, channels, *extents = graph.types[name].shape
        begin = ends[number - 1] if number else 0
        shape = graph.types[node.output].shape
        box = ((0, images), (begin, begin + channels), *((0, extent) for extent in extents))
        graph.remember_part(node.output, rescaled, shape, box)
    identity = np.broadcast_to(IDENTITY, rows.shape).copy()
    maps.append(graph.fresh_constant(f"{node.output}.identity", identity))
    graph.replace(node, maps, {**node.attrs, "zero_point": 0})
