"""An integer matrix product on maps, from a float one whose operands are quantized tensors."""

import math
from collections.abc import Callable

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, Node
from daedal.compiler.graph.ops.matmul import correction
from daedal.compiler.graph.passes.requantization import Quantization, QuantizedTensor, check_sums

__all__ = ["add_matmul", "reshaped", "turned"]


def add_matmul(
    builder: GraphBuilder,
    node: Node,
    operands: tuple[QuantizedTensor, QuantizedTensor],
    q: Quantization,
    output: str,
    *,
    params: Callable[[Array, Array], str],
    accumulator_bits: int,
) -> str | None:
    """Add `output`, the product of (..., M, K) and (..., K, N) quantized as `q`; return its name.

    The reduction axis becomes the channels of both maps, so the first operand is transposed. The
    channels of the result are the columns of the second operand, so the result is transposed, too.
    None if batches broadcast.

    Parameters
    ----------
    params : defines the parameter constant from a bias and a ratio.

    Raises
    ------
    ModelError
        The sums could leave the accumulators.
    """
    a, b = operands
    shapes = [builder.types[item.name].shape for item in operands]
    *batch, rows, depth = shapes[0]
    columns = shapes[1][-1]
    if list(shapes[1][:-2]) != batch:
        return None
    check_sums(node, depth * 255 * 255, accumulator_bits)
    count = math.prod(batch)
    stacked = reshaped(builder, a.name, (count, rows, depth))
    left = reshaped(builder, turned(builder, stacked), (count, depth, rows, 1))
    right = reshaped(builder, b.name, (count, depth, columns, 1))
    factor = np.array([correction(b.zero_point)[0]], dtype=np.int8)
    ratio = a.scale * b.scale / q.scale
    inputs = [
        left,
        right,
        builder.constant(builder.fresh_name(f"{output}.factor"), factor),
        params(np.array([depth * a.zero_point * b.zero_point]), np.array([ratio])),
    ]
    attrs = {
        "zero_point_a": a.zero_point,
        "zero_point_b": b.zero_point,
        "columns": columns,
        **q.attrs,
    }
    name = builder.fresh_name(f"{output}.map")
    maps = builder.add("q_matmul", inputs, attrs, output=name, name=node.name)
    stacked = reshaped(builder, maps, (count, columns, rows))
    if batch == [count]:
        return turned(builder, stacked, output)
    shape = (*batch, rows, columns)
    return reshaped(builder, turned(builder, stacked), shape, output)


def reshaped(builder: GraphBuilder, name: str, shape: tuple[int, ...], output: str = "") -> str:
    """Add a reshape; return its name."""
    output = output or builder.fresh_name(f"{name}.view")
    return builder.add("reshape", [name], {"shape": shape}, output=output)


def turned(builder: GraphBuilder, name: str, output: str = "") -> str:
    """Add a transpose that swaps the last two of three axes."""
    output = output or builder.fresh_name(f"{name}.turned")
    return builder.add("transpose", [name], {"order": (0, 2, 1)}, output=output)
