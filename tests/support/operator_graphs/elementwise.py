"""Elementwise operators on one or two maps as graphs of one layer."""

from collections.abc import Sequence

from daedal.compiler.graph.graph import Graph
from daedal.isa.variant import Variant
from tests.support.operator_graphs.layer_graph import Attrs, LayerGraph
from tests.support.pick import Pick

__all__ = [
    "add",
    "leaky_relu",
    "max_requantized",
    "maximum",
    "maximum_attrs",
    "mul",
    "requantize",
    "two_maps",
]


def two_maps(pick: Pick, variant: Variant, wide: Sequence[int] = ()) -> LayerGraph:
    """Maps of one shape, or the second one of fewer pixels, which are repeated."""
    shape = pick.map_shape(variant)
    height, width = (pick.one_of((extent, 1)) for extent in shape[2:])
    return LayerGraph(shape, (*shape[:2], height, width), wide=wide)


def add(pick: Pick, variant: Variant) -> Graph:
    layer = two_maps(pick, variant)
    first, second = pick.pair(-32767, 32767)
    attrs: Attrs = {"multiplier_a": first, "multiplier_b": second, **pick.bounds()}
    return layer.finish("q_add", pick.params(variant, 1, (8, 20), multiplier=1), attrs)


def mul(pick: Pick, variant: Variant) -> Graph:
    layer = two_maps(pick, variant)
    first, second = pick.pair(-128, 127)
    attrs: Attrs = {"zero_point_a": first, "zero_point_b": second, **pick.bounds()}
    return layer.finish("q_mul", pick.params(variant, 1, (22, 26)), attrs)


def maximum(pick: Pick, variant: Variant) -> Graph:
    layer = two_maps(pick, variant)
    params = pick.params(variant, 1, (8, 18), multiplier=1)
    return layer.finish("q_maximum", params, maximum_attrs(pick))


def maximum_attrs(pick: Pick) -> Attrs:
    """Zero points and multipliers of both operands, and bounds of the result."""
    zeros, multipliers = pick.pair(-128, 127), pick.pair(1, 16383)
    return {
        **{f"zero_point_{role}": zero for role, zero in zip("ab", zeros, strict=True)},
        **{f"multiplier_{role}": factor for role, factor in zip("ab", multipliers, strict=True)},
        **pick.bounds(),
    }


def leaky_relu(pick: Pick, variant: Variant) -> Graph:
    attrs: Attrs = {
        "zero_point_x": pick.integer(-128, 127),
        "multiplier_positive": pick.integer(0, 32767),
        "multiplier_negative": pick.integer(-32767, 32767),
        **pick.bounds(),
    }
    layer = LayerGraph(pick.map_shape(variant))
    return layer.finish("q_leaky_relu", pick.params(variant, 1, (8, 18), multiplier=1), attrs)


def max_requantized(pick: Pick, variant: Variant) -> Graph:
    layer = LayerGraph(pick.map_shape(variant))
    return layer.finish("q_max_requantized", pick.params(variant, 1, (15, 18)), pick.bounds())


def requantize(pick: Pick, variant: Variant) -> Graph:
    layer = LayerGraph(pick.map_shape(variant))
    return layer.finish("q_requantize", pick.params(variant, 1, (15, 18)), pick.bounds())
