"""`bytes_once`: the bytes a layer would transfer if each crossed the bus exactly once.

This is the memory side of a layer's roofline. Input: a node of the blocked graph. Output: bytes of
its logical tensors, without the padding of layouts. The machine counts the actual transfers.
"""

from math import prod

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.layout import ActivationLayout
from daedal.compiler.graph.narrow_weights import narrow_weights
from daedal.compiler.graph.ops.fused import CONVOLUTIONS
from daedal.compiler.graph.ops.integer import PARAMETER_DTYPE, element_bits
from daedal.compiler.graph.ops.registry import ints
from daedal.compiler.graph.stream_layout import RowStreamLayout
from daedal.isa.scratchpad import NARROW_WEIGHT_BITS
from daedal.isa.variant import Variant

__all__ = ["PARAMETER_BYTES", "bytes_once", "rows_touched"]

PARAMETER_BYTES = 8
"""Bias, multiplier and shift of one output channel, as every roofline here counts them, whatever
the width of a variant's accumulators, and whether a layer's channels share theirs or not."""


def rows_touched(
    num_rows: int, num_outputs: int, kernel: int, stride: int, pad: int, dilation: int
) -> int:
    """Number of rows, of a map of `num_rows`, that the windows of `num_outputs` output rows read.

    A 1x1 convolution with stride 2 reads every other row, and so does a slice with step 2. Within a
    row, all columns count.
    """
    rows = {
        output * stride + tap * dilation - pad
        for output in range(num_outputs)
        for tap in range(kernel)
    }
    return len(rows & set(range(num_rows)))


def bytes_once(graph: Graph, node: Node, variant: Variant) -> int:
    """Bytes of input rows touched, weights, outputs and parameters of a layer."""
    array = variant.array
    output = graph.types[node.output].shape
    kernel_rows = _kernel_rows(graph, node)
    bits = prod(output) * element_bits(graph.types[node.output], variant)
    for name in node.inputs[:-1]:
        kind = graph.types[name]
        if kind.dtype == PARAMETER_DTYPE:
            bits += PARAMETER_BYTES * 8 * output[1]
            continue
        if not isinstance(kind.layout, ActivationLayout | RowStreamLayout):
            narrow = narrow_weights(graph, node, variant)
            bits += prod(kind.shape) * (NARROW_WEIGHT_BITS if narrow else array.weight_bits)
            continue
        n, c, h, w = kind.shape
        if node.op == "q_slice":
            _, c, h, _ = output
        elif kernel_rows and name == node.inputs[0]:
            dilation = ints(node.attrs, "dilations")[0] if "dilations" in node.attrs else 1
            stride, pad = ints(node.attrs, "strides")[0], ints(node.attrs, "pads")[0]
            h = rows_touched(h, output[2], kernel_rows, stride, pad, dilation)
        bits += n * c * h * w * element_bits(kind, variant)
    return -(-bits // 8) + PARAMETER_BYTES * output[1]


def _kernel_rows(graph: Graph, node: Node) -> int:
    """Rows of the window that slides over the input, or 0 if there is none."""
    if "kernel" in node.attrs:
        return ints(node.attrs, "kernel")[0]
    if node.op in CONVOLUTIONS:
        return graph.types[node.inputs[1]].shape[2]
    return 0
