"""Layers behind which there is a table, which the compiler joins with them."""

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.isa.scratchpad import TABLE_ENTRIES
from daedal.isa.variant import Variant
from tests.support.operator_graphs.convolutions import (
    conv2d,
    conv2d_add,
    conv2d_mul,
    depthwise_conv2d,
    grouped_conv2d,
    other_operand,
)
from tests.support.operator_graphs.elementwise import add, mul
from tests.support.operator_graphs.layer_graph import LayerGraph
from tests.support.pick import Pick

__all__ = [
    "add_lookup",
    "conv2d_add_lookup",
    "conv2d_lookup",
    "conv2d_lookup_add",
    "conv2d_mul_lookup",
    "lookup",
    "mul_lookup",
]


def lookup(pick: Pick, variant: Variant) -> Graph:
    """Any table of any requantization."""
    layer = LayerGraph(pick.map_shape(variant))
    layer.constant("table", pick.int8((TABLE_ENTRIES,)))
    params = pick.params(variant, 1, (15, 18))
    return layer.finish("q_requantize_lookup", params, pick.bounds())


def _looked_up(graph: Graph, pick: Pick, output: str = "looked") -> tuple[LayerGraph, str]:
    """The graph's result, and behind it a table that the compiler joins with what computes it."""
    layer = LayerGraph()
    builder = layer.builder = GraphBuilder("layer", graph)
    builder.copy_inputs()
    for node in graph.nodes:
        builder.copy_node(node)
    operands = [
        *graph.outputs,
        builder.constant("table", pick.int8((TABLE_ENTRIES,))),
        builder.constant("identity", IDENTITY),
    ]
    return layer, builder.add("q_requantize_lookup", operands, UNCHANGED, output=output)


def _with_table(graph: Graph, pick: Pick) -> Graph:
    layer, looked = _looked_up(graph, pick)
    return layer.builder.finish([looked])


def add_lookup(pick: Pick, variant: Variant) -> Graph:
    return _with_table(add(pick, variant), pick)


def mul_lookup(pick: Pick, variant: Variant) -> Graph:
    return _with_table(mul(pick, variant), pick)


def conv2d_lookup(pick: Pick, variant: Variant) -> Graph:
    kinds = (conv2d, grouped_conv2d, depthwise_conv2d)
    return _with_table(pick.one_of(kinds)(pick, variant), pick)


def conv2d_add_lookup(pick: Pick, variant: Variant) -> Graph:
    return _with_table(conv2d_add(pick, variant), pick)


def conv2d_mul_lookup(pick: Pick, variant: Variant) -> Graph:
    return _with_table(conv2d_mul(pick, variant), pick)


def conv2d_lookup_add(pick: Pick, variant: Variant) -> Graph:
    kinds = (conv2d, grouped_conv2d, depthwise_conv2d)
    layer, looked = _looked_up(pick.one_of(kinds)(pick, variant), pick)
    layer.operands = [looked, other_operand(layer, looked, pick)]
    first, second = pick.pair(-32767, 32767)
    attrs = {"multiplier_a": first, "multiplier_b": second, **pick.bounds()}
    params = pick.params(variant, 1, (8, 20), multiplier=1)
    layer.operands.append(layer.builder.constant("sum.params", params))
    return layer.builder.finish([layer.builder.add("q_add", layer.operands, attrs, output="z")])
