"""Takes the taps of convolutions and pools away that read padding alone."""

from collections.abc import Sequence

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

    Pools likewise, unless pads count in an average: the last one of a network can have a kernel of
    the size of its images.
    """
    return rewrite(graph, {"conv2d": _cut, "max_pool": _cut_window, "avg_pool": _cut_window})


def _cut(graph: Rewriter, node: Node) -> None:
    x, weights, *bias = node.inputs
    dequantize = producer_of(graph, weights, ("dequantize",))
    source = weights if dequantize is None else dequantize.inputs[0]
    if not graph.is_constant(source):
        return
    if dequantize is not None and graph.types[dequantize.inputs[1]].rank >= _MATRIX_RANK:
        return  # scales of blocks
    steps = ints(node.attrs, "dilations")
    found = _live_window(graph, node, graph.types[weights].shape[2:], steps)
    if found is None:
        return
    kept, pads = found
    cut = graph.constant(source)[:, :, kept[0], kept[1]]
    name = graph.fresh_constant(f"{source}.cut", np.ascontiguousarray(cut))
    if dequantize is not None:
        operands = [name, *dequantize.inputs[1:]]
        base = f"{weights}.cut"
        name = graph.add_fresh("dequantize", operands, dequantize.attrs, base=base)
    attrs = {**node.attrs, "pads": pads}
    graph.add("conv2d", [x, name, *bias], attrs, output=node.output, name=node.name)


def _cut_window(graph: Rewriter, node: Node) -> None:
    if any(ints(node.attrs, "counted_pads") if node.op == "avg_pool" else ()):
        return
    found = _live_window(graph, node, ints(node.attrs, "kernel"), (1, 1))
    if found is None:
        return
    kept, pads = found
    attrs = {**node.attrs, "kernel": tuple(x.stop - x.start for x in kept), "pads": pads}
    graph.add(node.op, node.inputs, attrs, output=node.output, name=node.name)


def _live_window(
    graph: Dataflow, node: Node, kernel: Sequence[int], steps: Sequence[int]
) -> tuple[list[slice], tuple[int, ...]] | None:
    """The taps along both axes of the map that are kept, and the pads for these; None where all
    are, or where pads cannot say which."""
    pads, kept = list(ints(node.attrs, "pads")), list[slice]()
    for axis, (extent, step) in enumerate(zip(kernel, steps, strict=True)):
        taps = _live_taps(graph, node, axis, extent, step)
        if taps is None:
            return None
        pads[axis] -= step * taps.start
        pads[2 + axis] -= step * (extent - taps.stop)
        kept.append(taps)
    are_all = [taps.stop - taps.start for taps in kept] == list(kernel)
    return None if are_all or min(pads) < 0 else (kept, tuple(pads))


def _live_taps(graph: Dataflow, node: Node, axis: int, taps: int, step: int) -> slice | None:
    """From the first tap along an axis of the map that meets it to the last; None if none does."""
    inside, outside = (graph.types[x].shape[2 + axis] for x in (node.inputs[0], node.output))
    first = np.arange(outside) * ints(node.attrs, "strides")[axis] - ints(node.attrs, "pads")[axis]
    places = first[:, None] + np.arange(taps) * step
    live = np.flatnonzero(((places >= 0) & (places < inside)).any(axis=0))
    return slice(int(live[0]), int(live[-1]) + 1) if len(live) else None
