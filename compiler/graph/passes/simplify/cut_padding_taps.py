"""Takes the taps of a convolution away that read padding alone."""

import numpy as np

from daedal.compiler.graph.dataflow import Dataflow, producer_of
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import ints
from daedal.compiler.graph.rewrite import Rewriter, rewrite

__all__ = ["cut_padding_taps"]

_MATRIX_RANK = 2


def cut_padding_taps(graph: Graph) -> Graph:
    """Cut kernels to the taps that meet the map. Exact.

    On small maps, a kernel or its dilation reaches past both edges: of 3x3 taps with a dilation of
    36, one meets a map of 33x33 (Chen et al., "Rethinking atrous convolution for semantic image
    segmentation", 2017, section 3.3). The weights may be dequantized.

    Before::

        y = conv2d(x, w) pads=2,2,2,2 dilations=2,2 strides=1,1     # x: [1,8,2,2], w: [4,8,3,3]

    After::

        y = conv2d(x, w.cut) pads=0,0,0,0 dilations=2,2 ...         # w.cut: [4,8,1,1]
    """
    return rewrite(graph, {"conv2d": _cut})


def _cut(graph: Rewriter, node: Node) -> None:
    x, weights, *bias = node.inputs
    dequantize = producer_of(graph, weights, ("dequantize",))
    source = weights if dequantize is None else dequantize.inputs[0]
    if not graph.is_constant(source):
        return
    if dequantize is not None and graph.types[dequantize.inputs[1]].rank >= _MATRIX_RANK:
        return  # scales of blocks
    pads, kept = list(ints(node.attrs, "pads")), list[slice]()
    for axis in range(2):
        taps = _live_taps(graph, node, axis)
        if taps is None:
            return
        step, extent = ints(node.attrs, "dilations")[axis], graph.types[weights].shape[2 + axis]
        pads[axis] -= step * taps.start
        pads[2 + axis] -= step * (extent - taps.stop)
        kept.append(taps)
    values = graph.constant(source)
    cut = values[:, :, kept[0], kept[1]]
    if cut.shape == values.shape or min(pads) < 0:
        return
    name = graph.fresh_constant(f"{source}.cut", np.ascontiguousarray(cut))
    if dequantize is not None:
        operands = [name, *dequantize.inputs[1:]]
        base = f"{weights}.cut"
        name = graph.add_fresh("dequantize", operands, dequantize.attrs, base=base)
    attrs = {**node.attrs, "pads": tuple(pads)}
    graph.add("conv2d", [x, name, *bias], attrs, output=node.output, name=node.name)


def _live_taps(graph: Dataflow, node: Node, axis: int) -> slice | None:
    """From the first tap along an axis of the map that meets it to the last; None if none does."""
    x, weights = node.inputs[:2]
    extents = (graph.types[name].shape[2 + axis] for name in (x, weights, node.output))
    inside, taps, outside = extents
    step, stride = ints(node.attrs, "dilations")[axis], ints(node.attrs, "strides")[axis]
    first = np.arange(outside) * stride - ints(node.attrs, "pads")[axis]
    places = first[:, None] + np.arange(taps) * step
    live = np.flatnonzero(((places >= 0) & (places < inside)).any(axis=0))
    return slice(int(live[0]), int(live[-1]) + 1) if len(live) else None
