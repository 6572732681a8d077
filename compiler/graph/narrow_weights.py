"""`narrow_weights`: layers whose weights are in memory with 4 bits.

Input: a node of the blocked graph. A variant with `units.narrow_weights` expands these weights to 8
bits where it loads them, so whoever computes the layer sees the same values.
"""

import numpy as np

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.fused import CONVOLUTIONS
from daedal.compiler.graph.stream_layout import RowStreamLayout
from daedal.isa.numerics import IntArray, integer_range
from daedal.isa.scratchpad import NARROW_WEIGHT_BITS
from daedal.isa.variant import Variant

__all__ = ["may_have_narrow_weights", "narrow_weights"]


def narrow_weights(graph: Graph, node: Node, variant: Variant) -> bool:
    """Whether the constant weights of a convolution are loaded with 4 bits: all of them fit.

    Dense layers are convolutions here. Those over images (row streams) and transposed ones keep 8
    bits: few networks have more than one, and their weights are few.
    """
    if not variant.units.narrow_weights or node.op not in CONVOLUTIONS:
        return False
    x, weights, *_ = node.inputs
    if isinstance(graph.types[x].layout, RowStreamLayout) or not graph.is_constant(weights):
        return False
    return _is_narrow(graph.constant(weights))


def may_have_narrow_weights(graph: Graph) -> bool:
    """Whether a layer of an imported model may be loaded with 4 bits: weights are integers with two
    axes or more."""
    return any(
        array.ndim > 1 and array.dtype == np.int8 and _is_narrow(array)
        for array in map(graph.constant, graph.constants)
    )


def _is_narrow(values: IntArray) -> bool:
    low, high = integer_range(NARROW_WEIGHT_BITS)
    return bool(values.min(initial=0) >= low and values.max(initial=0) <= high)
