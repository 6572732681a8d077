"""Folds the contribution of padding other than 0 into the biases of a convolution."""

import math

import numpy as np

from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.graph.dataflow import Dataflow
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.grouped_layout import GroupedWeightLayout
from daedal.compiler.graph.layout import ActivationLayout, WeightLayout
from daedal.compiler.graph.ops.padding_classes import PaddingClasses
from daedal.compiler.graph.ops.registry import ints, whole
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["fold_padding", "rows_for_classes"]


def fold_padding(graph: Graph, variant: Variant) -> Graph:
    """Pad maps with 0, whose products are skipped, and correct the bias instead. Exact.

    Padding with a nonzero zero point has to be multiplied: 5 % of all products for a 3x3 window on
    28x28 pixels, 18 % on 7x7. The sum of these products depends on the channel of the result and on
    which taps of the window lie outside the map. So each channel gets a row of parameters for each
    such class of outputs (`PaddingClasses`): 9 for a 3x3 window.

    Before::

        y = q_conv2d(x, w, p) pad_value=-128 pads=(1, 1, 1, 1) ...    # p: int64[4,16,3]

    After::

        y = q_conv2d(x, w, p.padded) pad_value=0 pads=(1, 1, 1, 1) ...  # p.padded: int64[4,9,16,3]

    A convolution stays if its rows of parameters would not fit the scratchpad, or would take longer
    to load than the products that they save. Depthwise convolutions stay too: they are limited by
    the bus rather than by the multipliers.
    """
    return rewrite(graph, {"q_conv2d": lambda graph, node: _fold(graph, node, variant)})


def _fold(graph: Rewriter, node: Node, variant: Variant) -> None:
    params = _params(graph, node, variant) if _applies(graph, node) else None
    if params is not None:
        x, w, old = node.inputs
        name = graph.fresh_constant(f"{old}.padded", params)
        graph.replace(node, [x, w, name], {**node.attrs, "pad_value": 0})


def _applies(graph: Dataflow, node: Node) -> bool:
    if node.op != "q_conv2d" or not any(ints(node.attrs, "pads")):
        return False
    x, w, params = (graph.types[name] for name in node.inputs)
    known = (WeightLayout, GroupedWeightLayout)
    return (
        whole(node.attrs, "pad_value") != 0
        and isinstance(x.layout, ActivationLayout)
        and isinstance(w.layout, known)
        and params.rank == 3
    )


def _params(graph: Dataflow, node: Node, variant: Variant) -> Array | None:
    """(rows, classes, block_out, 3), or without `classes` if there is only one class. None if the
    parameters do not fit or do not pay off."""
    x, w, _ = (graph.types[name] for name in node.inputs)
    result = graph.types[node.output]
    classes = PaddingClasses.of(x.shape[2:], w.shape[2:], result.shape[2:], node.attrs)
    parts = variant.block // variant.array.block_out
    if _rows(classes, parts) > scratchpad(variant, Memory.PAR).depth_rows:
        return None
    if classes.count > 1 and not _pays(graph, node, classes, variant):
        return None
    old = graph.constant(node.inputs[2])
    weights = w.layout.unpack(graph.constant(node.inputs[1])).astype(np.int64)[: w.shape[0]]
    sums = whole(node.attrs, "pad_value") * weights[:, : w.shape[1]].sum(axis=1)
    added = np.einsum("okl,ckl->oc", sums, classes.outside().astype(np.int64))
    biases = np.zeros((old.shape[0] * old.shape[1], classes.count), dtype=np.int64)
    biases[: len(added)] = added
    params = np.repeat(old[:, None], classes.count, axis=1)
    params[..., 0] += biases.reshape(old.shape[0], old.shape[1], -1).swapaxes(1, 2)
    limit = 1 << (variant.array.accumulator_bits - 1)
    if not -limit <= params[..., 0].min() <= params[..., 0].max() < limit:
        return None
    return params if classes.count > 1 else np.ascontiguousarray(params[:, 0])


def rows_for_classes(graph: Graph, variant: Variant) -> list[int]:
    """Rows of scratchpad PAR that `fold_padding` needs for each convolution with padding; it
    depends on no other size of a scratchpad."""
    parts = variant.block // variant.array.block_out
    found = []
    for node in graph.nodes:
        if _applies(graph, node):
            x, w, result = (graph.types[name] for name in (*node.inputs[:2], node.output))
            classes = PaddingClasses.of(x.shape[2:], w.shape[2:], result.shape[2:], node.attrs)
            found.append(_rows(classes, parts))
    return found


def _rows(classes: PaddingClasses, parts: int) -> int:
    """Twice, for a tile and the next one: rows of a block, and one of an operator that may be
    fused."""
    return 2 * (classes.count * parts + 1)


def _pays(graph: Dataflow, node: Node, classes: PaddingClasses, variant: Variant) -> bool:
    """Whether the busier of multipliers and bus takes less time than before."""
    x, w, _ = (graph.types[name] for name in node.inputs)
    result = graph.types[node.output]
    vectors = math.prod(result.physical_shape) // variant.array.block_out // variant.array.batch
    products = vectors * math.prod(w.physical_shape[1:4])
    elements = sum(math.prod(kind.physical_shape) for kind in (x, w, result))
    beats = elements * variant.array.input_bits // 8 // variant.bus_bytes
    cost = machine_cost(variant)
    added = graph.types[node.inputs[2]].shape[0] * (classes.count - 1) * cost.row_beats[Memory.PAR]
    after = cost.roofline(products * classes.share_inside(), beats + added)
    return after < cost.roofline(products, beats)
