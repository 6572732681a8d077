"""`layer_costs`: what makes a layer of the blocked graph slow by construction.

Input: a node of the graph that is compiled. Output: the costs that `daedal compile` reports. All of
them follow from shapes and layouts; what a program really takes is the cycle model's to count.
"""

from math import ceil, prod

import numpy as np

from daedal.artifact.artifact import Cost
from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.grouped_layout import GroupedWeightLayout
from daedal.compiler.graph.layout import DepthwiseLayout, WeightLayout
from daedal.compiler.graph.ops.fused import CONVOLUTIONS
from daedal.compiler.graph.ops.integer import PARAMETER_DTYPE
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.stream_layout import RowStreamWeightLayout
from daedal.compiler.ops.accelerator.lowering import multiplications
from daedal.compiler.ops.accelerator.padding_macs import padding_macs
from daedal.compiler.ops.accelerator.traffic import PARAMETER_BYTES, bytes_once
from daedal.isa.variant import Variant

__all__ = ["layer_costs", "weight_cost"]

_MOVES = ("q_concat", "q_pad", "q_permute", "q_requantize", "q_resize", "q_slice")


def layer_costs(graph: Graph, node: Node, variant: Variant) -> tuple[Cost, ...]:
    """The costs of the layer `node`: at most one, the reason that weighs most.

    Its cycles are those by which products or transfers, whichever take longer, exceed the layer's
    roofline because lanes hold zeros. A layer that only moves elements costs all of its cycles.
    """
    bus_cycles = bytes_once(graph, node, variant) / variant.bus_bytes
    if node.op in _MOVES or _is_selection(graph, node):
        size = bytes_once(graph, node, variant)
        return (Cost("moves", ceil(bus_cycles), f"{size:,} bytes"),)
    if node.op not in CONVOLUTIONS:
        return ()
    needed = multiplications(graph, node) - padding_macs(graph, node)
    cost = machine_cost(variant)
    roofline = cost.roofline(needed / variant.macs_per_cycle, bus_cycles)
    products = _products(graph, node) * needed / max(1, multiplications(graph, node))
    words = _blocked_bytes(graph, node) / variant.bus_bytes
    cycles = ceil(cost.roofline(products, words) - roofline)
    share = needed / variant.macs_per_cycle / max(1, products)
    kind, text = _reason(graph, node, variant, share)
    return (Cost(kind, cycles, text),) if cycles > 0 and share < 1 else ()


def weight_cost(macs: int, model_macs: int, variant: Variant) -> Cost | None:
    """The cost of weights that do not fit into int8, if a layer of the model with `model_macs`
    multiply-accumulates takes `macs` because of them."""
    if not 0 < model_macs < macs:
        return None
    cycles = (macs - model_macs) // variant.macs_per_cycle
    text = f"weights less their zero point exceed int8: {macs / model_macs:.2f} times the products"
    return Cost("weights", cycles, text)


def _products(graph: Graph, node: Node) -> int:
    """Products of the array, those with padding included; one takes a cycle."""
    weights = graph.types[node.inputs[1]]
    blocks, _, height, width, _, _ = graph.types[node.output].physical_shape
    held = weights.physical_shape
    per_vector = prod(held[:4])
    if isinstance(weights.layout, DepthwiseLayout):
        per_vector = prod(held[:3])
    elif isinstance(weights.layout, RowStreamWeightLayout):
        per_vector //= weights.layout.phases
    return blocks * height * width * per_vector


def _blocked_bytes(graph: Graph, node: Node) -> int:
    """Bytes of maps, weights and parameters, with the zeros that fill blocks; once each."""
    kinds = [graph.types[name] for name in (*node.inputs, node.output)]
    held = sum(prod(kind.physical_shape) for kind in kinds if kind.dtype != PARAMETER_DTYPE)
    rows = sum(kind.dtype == PARAMETER_DTYPE for kind in kinds)
    return held + rows * PARAMETER_BYTES * graph.types[node.output].shape[1]


def _reason(graph: Graph, node: Node, variant: Variant, share: float) -> tuple[str, str]:
    """Kind and text of the cost of a convolution that uses `share` of the array."""
    weights = graph.types[node.inputs[1]]
    outs, ins = weights.shape[:2]
    groups, used = whole(node.attrs, "groups"), f"{share:.0%} of the array"
    if isinstance(weights.layout, DepthwiseLayout):
        return "depthwise", f"one channel per group uses {used}"
    if isinstance(weights.layout, GroupedWeightLayout):
        joined = weights.layout.joined
        return "groups", f"{groups} groups of {ins} channels, {joined} in one product, use {used}"
    if isinstance(weights.layout, RowStreamWeightLayout):
        channels = "one channel" if ins == 1 else f"{ins} channels"
        return "image", f"an image of {channels} uses {used}"
    assert isinstance(weights.layout, WeightLayout)
    block = max(variant.array.block_in, variant.array.block_out)
    lanes = " x ".join(f"{-(-count // block) * block}" for count in (ins, outs))
    return "lanes", f"{ins} -> {outs} channels take {lanes} lanes, {used}"


def _is_selection(graph: Graph, node: Node) -> bool:
    """Whether a convolution only copies channels: a matrix of zeros and ones."""
    if node.op not in CONVOLUTIONS or not graph.is_constant(node.inputs[1]):
        return False
    kind, values = graph.types[node.inputs[1]], graph.constant(node.inputs[1])
    if kind.shape[2:] != (1, 1) or not isinstance(kind.layout, WeightLayout):
        return False
    rows = kind.layout.unpack(values)[: kind.shape[0], :, 0, 0]
    ones = np.count_nonzero(rows, axis=1)
    return bool(ones.max() <= 1 and rows.min() >= 0 and rows.max() == 1)
