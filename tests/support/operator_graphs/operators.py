"""Every operator of the accelerator as a graph of one layer with random shapes and values.

An operator that is new adds a function and its line in `OPERATORS`; all tests of equality between
the levels of the compiler then cover it. Shapes are odd on purpose: channels that do not fill a
block, maps of one pixel, pads of different width on every side.
"""

from collections.abc import Callable
from dataclasses import dataclass

from daedal.compiler.graph.graph import Graph
from daedal.compiler.ops.accelerator.vector.rows import computes_rows
from daedal.isa.variant import Variant
from tests.support.operator_graphs.attention import attention_weights, weighted_mean
from tests.support.operator_graphs.convolutions import (
    conv2d,
    conv2d_add,
    conv2d_leaky_relu,
    conv2d_max_requantized,
    conv2d_maximum,
    conv2d_mul,
    conv2d_requantize,
    conv_transpose2d,
    depthwise_conv2d,
    grouped_conv2d,
    matmul,
)
from tests.support.operator_graphs.elementwise import (
    add,
    leaky_relu,
    max_requantized,
    maximum,
    mul,
    requantize,
)
from tests.support.operator_graphs.lookups import (
    add_lookup,
    conv2d_add_lookup,
    conv2d_lookup,
    conv2d_lookup_add,
    conv2d_mul_lookup,
    lookup,
    mul_lookup,
)
from tests.support.operator_graphs.movement import (
    avg_pool,
    concat,
    max_pool,
    pad_map,
    permute,
    resize,
    slice_map,
)
from tests.support.operator_graphs.rows import (
    channel_requantize,
    layer_norm,
    rms_norm,
    softmax,
    wide_layer_norm,
    wide_rms_norm,
)
from tests.support.operator_graphs.wide import (
    wide_add,
    wide_conv2d,
    wide_conv2d_add,
    wide_conv2d_requantize,
    wide_conv2d_sum,
    wide_matmul,
    wide_permute,
    wide_requantize,
    wide_sum,
)
from tests.support.pick import Pick

__all__ = ["OPERATORS", "Operator"]


def _is_square(variant: Variant) -> bool:
    return variant.array.block_in == variant.array.block_out


def _has_no_batch(variant: Variant) -> bool:
    return variant.array.batch == 1


def _is_any(variant: Variant) -> bool:
    return True


def _has_wide_results(variant: Variant) -> bool:
    return variant.units.wide_requantize


def _has_tables(variant: Variant) -> bool:
    return variant.memory.tables > 0


@dataclass(frozen=True)
class Operator:
    """One kind of layer.

    Parameters
    ----------
    graph : makes a graph with it, its attributes, constants and shapes drawn.
    runs_on : whether a variant can run it.
    """

    graph: Callable[[Pick, Variant], Graph]
    runs_on: Callable[[Variant], bool] = _is_any


OPERATORS: dict[str, Operator] = {
    "conv2d": Operator(conv2d),
    "conv2d_add": Operator(conv2d_add),
    "conv2d_leaky_relu": Operator(conv2d_leaky_relu),
    "conv2d_max_requantized": Operator(conv2d_max_requantized),
    "conv2d_maximum": Operator(conv2d_maximum),
    "conv2d_mul": Operator(conv2d_mul),
    "conv2d_requantize": Operator(conv2d_requantize),
    "grouped_conv2d": Operator(grouped_conv2d),
    "depthwise_conv2d": Operator(depthwise_conv2d),
    "conv_transpose2d": Operator(conv_transpose2d),
    "matmul": Operator(matmul, _is_square),
    "add": Operator(add),
    "maximum": Operator(maximum),
    "mul": Operator(mul),
    "leaky_relu": Operator(leaky_relu),
    "max_requantized": Operator(max_requantized),
    "requantize": Operator(requantize),
    "lookup": Operator(lookup, _has_tables),
    "add_lookup": Operator(add_lookup, _has_tables),
    "mul_lookup": Operator(mul_lookup, _has_tables),
    "conv2d_lookup": Operator(conv2d_lookup, _has_tables),
    "conv2d_lookup_add": Operator(conv2d_lookup_add, _has_tables),
    "conv2d_add_lookup": Operator(conv2d_add_lookup, _has_tables),
    "conv2d_mul_lookup": Operator(conv2d_mul_lookup, _has_tables),
    "softmax": Operator(softmax, computes_rows),
    "attention_weights": Operator(attention_weights, computes_rows),
    "weighted_mean": Operator(weighted_mean, computes_rows),
    "layer_norm": Operator(layer_norm, computes_rows),
    "rms_norm": Operator(rms_norm, computes_rows),
    "wide_layer_norm": Operator(wide_layer_norm, computes_rows),
    "wide_rms_norm": Operator(wide_rms_norm, computes_rows),
    "channel_requantize": Operator(channel_requantize),
    "wide_add": Operator(wide_add, _has_wide_results),
    "wide_requantize": Operator(wide_requantize, _has_wide_results),
    "wide_sum": Operator(wide_sum, _has_wide_results),
    "wide_conv2d": Operator(wide_conv2d, _has_wide_results),
    "wide_conv2d_add": Operator(wide_conv2d_add, _has_wide_results),
    "wide_conv2d_requantize": Operator(wide_conv2d_requantize, _has_wide_results),
    "wide_conv2d_sum": Operator(wide_conv2d_sum, _has_wide_results),
    "wide_matmul": Operator(
        wide_matmul, lambda variant: _is_square(variant) and _has_wide_results(variant)
    ),
    "wide_permute": Operator(
        wide_permute, lambda variant: _has_no_batch(variant) and _has_wide_results(variant)
    ),
    "max_pool": Operator(max_pool),
    "avg_pool": Operator(avg_pool),
    "slice": Operator(slice_map),
    "pad": Operator(pad_map),
    "concat": Operator(concat),
    "permute": Operator(permute, _has_no_batch),
    "resize": Operator(resize),
}
