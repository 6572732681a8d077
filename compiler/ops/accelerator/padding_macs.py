"""`padding_macs`: how many of a layer's multiply-accumulates are with padding.

Input: a node of the blocked graph. Output: a part of its `multiplications`. An accelerator can skip
these products: those with 0 add nothing, and the sum of the others is known at compile time.
"""

from math import prod

import numpy as np

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.fused import CONVOLUTIONS
from daedal.compiler.graph.ops.registry import ints
from daedal.compiler.ops.accelerator.lowering import multiplications

__all__ = ["padding_macs", "taps_inside"]

_TRANSPOSED = "q_conv_transpose2d"


def padding_macs(graph: Graph, node: Node) -> int:
    """Products with elements outside the map; for a transposed convolution, those for outputs that
    the pads cut off."""
    if node.op not in (*CONVOLUTIONS, _TRANSPOSED):
        return 0
    # The side whose windows do not overlap, and the side beyond whose border windows extend.
    windows, reached = node.output, node.inputs[0]
    if node.op == _TRANSPOSED:
        windows, reached = reached, windows
    kernel = graph.types[node.inputs[1]].shape[2:]
    counts, sizes = (graph.types[name].shape[2:] for name in (windows, reached))
    strides, pads, dilations = (ints(node.attrs, name) for name in ("strides", "pads", "dilations"))
    inside = prod(
        taps_inside(
            sizes[axis], counts[axis], kernel[axis], strides[axis], pads[axis], dilations[axis]
        )
        for axis in range(2)
    )
    every = prod(counts) * prod(kernel)
    return multiplications(graph, node) // every * (every - inside)


def taps_inside(
    size: int, num_windows: int, kernel: int, stride: int, pad: int, dilation: int
) -> int:
    """Pairs of a window and one of its taps that lie inside a map of `size` rows."""
    places = np.add.outer(np.arange(num_windows) * stride, np.arange(kernel) * dilation) - pad
    return int(np.count_nonzero((places >= 0) & (places < size)))
