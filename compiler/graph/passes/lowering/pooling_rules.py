"""The lowering rules of `lower_qdq` for pooling."""

from collections.abc import Mapping

import numpy as np

from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.pooling import window_counts
from daedal.compiler.graph.passes.lowering.lowering_context import LoweringContext, Rule
from daedal.compiler.graph.passes.lowering.requantization import Quantization

__all__ = ["RULES"]

_MINIMUM = -128
"""Pad value of a maximum pool: no element is smaller."""


def _lower_max_pool(
    context: LoweringContext, node: Node, q: Quantization, output: str
) -> str | None:
    """Take the maximum of the integers, then change the scale."""
    x = context.source(node.inputs[0], q)
    if x is None:
        return None
    params, finish = context.rescale(node, output, x, q)
    attrs = {**node.attrs, "pad_value": _MINIMUM, **finish.attrs}
    return context.builder.add("q_max_pool", [x.name, params], attrs, output=output, name=node.name)


def _lower_avg_pool(
    context: LoweringContext, node: Node, q: Quantization, output: str
) -> str | None:
    """Sum the integers; the multiplier includes 1/n, one for each number n of counted elements.

    Padding is the zero point, a real 0, so all windows have the same bias.
    """
    x = context.resolve(node.inputs[0])
    if x is None:
        return None
    kernel = node.attrs["kernel"]
    assert isinstance(kernel, tuple)
    rows, columns = window_counts(context.graph.types[node.inputs[0]], node.attrs)
    divisors = tuple(sorted({row * column for row in set(rows) for column in set(columns)}))
    biases = np.full(len(divisors), -kernel[0] * kernel[1] * x.zero_point)
    ratios = x.scale / q.scale / np.array(divisors, dtype=np.float64)
    params = context.params(node, output, biases, ratios, kernel[0] * kernel[1] * x.largest)
    attrs = {
        "kernel": kernel,
        "strides": node.attrs["strides"],
        "pads": node.attrs["pads"],
        "pad_value": x.zero_point,
        "counts_h": rows,
        "counts_w": columns,
        "divisors": divisors,
        **q.attrs,
    }
    return context.builder.add("q_avg_pool", [x.name, params], attrs, output=output, name=node.name)


RULES: Mapping[str, Rule] = {
    "avg_pool": _lower_avg_pool,
    "max_pool": _lower_max_pool,
}
