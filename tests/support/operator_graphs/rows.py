"""Softmax, norms and changes of scale by channel as graphs of one layer."""

import numpy as np

from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.ops.integer_rows import (
    NORM_ATTRS,
    NORM_TABLES,
    SOFTMAX_TABLES,
    norm_steps,
    step_rows,
)
from daedal.compiler.integer.norms import NormParameters
from daedal.compiler.integer.softmax import Softmax
from daedal.isa.numerics import quantize_multiplier
from daedal.isa.variant import Variant
from tests.support.operator_graphs.layer_graph import Array, Attrs, LayerGraph
from tests.support.pick import Pick

__all__ = [
    "channel_requantize",
    "layer_norm",
    "rms_norm",
    "softmax",
    "wide_layer_norm",
    "wide_rms_norm",
]


def _row_operands(layer: LayerGraph, tables: dict[str, Array], steps: Array) -> None:
    for name, table in tables.items():
        layer.constant(name, table)
    layer.constant("steps", steps)


def softmax(pick: Pick, variant: Variant) -> Graph:
    """Keys are channels, as behind a product of two maps."""
    layer = LayerGraph(pick.map_shape(variant))
    keys = layer.builder.types["x0"].shape[1]
    scale, result_scale = pick.one_of((0.002, 0.03, 0.5)), pick.one_of((1 / 256, 1 / 50))
    constants = Softmax.of(keys, scale, 8, variant.units.multiplier_bits)
    tables = {name: getattr(constants, name) for name in SOFTMAX_TABLES}
    rows = step_rows([constants.index], constants.bit_steps, [constants.mantissa])
    _row_operands(layer, tables, rows)
    ratio = Softmax.result_ratio(result_scale)
    params = [[0, *quantize_multiplier(ratio, variant.units.multiplier_bits)]]
    attrs: Attrs = {"sum_bits": constants.sum_bits, **pick.bounds()}
    return layer.finish("q_softmax", np.array(params), attrs)


def _norm(pick: Pick, variant: Variant, op: str, *, wide: bool = False) -> Graph:
    """Operand and result have 8 bits, or with `wide` 16."""
    layer = LayerGraph(pick.map_shape(variant), wide=(0,) if wide else ())
    channels = layer.builder.types["x0"].shape[1]
    signs = pick.rng.choice([-1, 1], channels) if pick.integer(0, 1) else 1
    found = NormParameters.of(
        pick.rng.uniform(0.1, 2, channels) * signs,
        pick.rng.normal(0, 1, channels),
        epsilon=pick.one_of((1e-12, 1e-5)),
        scale=pick.one_of((0.001, 0.1)),
        zero_point=0 if wide else pick.integer(-128, 127),
        bits=16 if wide else 8,
        result_scale=0.0005 if wide else 0.03,
        multiplier_bits=variant.units.multiplier_bits,
        centred=op == "q_layer_norm",
    )
    constants = found.constants
    tables = {name: getattr(constants, name) for name in NORM_TABLES}
    _row_operands(layer, tables, norm_steps(constants))
    layer.constant("params", found.params)
    if (found.signs < 0).any():
        layer.constant("signs", found.signs.reshape(1, -1, 1, 1))
    attrs: Attrs = {name: getattr(constants, name.removesuffix("_x")) for name in NORM_ATTRS}
    attrs |= pick.wide_bounds() if wide else pick.bounds()
    return layer.builder.finish([layer.builder.add(op, layer.operands, attrs, output="y")])


def layer_norm(pick: Pick, variant: Variant) -> Graph:
    return _norm(pick, variant, "q_layer_norm")


def rms_norm(pick: Pick, variant: Variant) -> Graph:
    return _norm(pick, variant, "q_rms_norm")


def wide_layer_norm(pick: Pick, variant: Variant) -> Graph:
    return _norm(pick, variant, "q_layer_norm", wide=True)


def wide_rms_norm(pick: Pick, variant: Variant) -> Graph:
    return _norm(pick, variant, "q_rms_norm", wide=True)


def channel_requantize(pick: Pick, variant: Variant) -> Graph:
    wide = (0,) if variant.units.wide_requantize and pick.integer(0, 1) else ()
    layer = LayerGraph(pick.map_shape(variant), wide=wide)
    channels = layer.builder.types["x0"].shape[1]
    shifts = (22, 26) if wide else (14, 18)
    params = pick.params(variant, channels, shifts)
    return layer.finish("q_channel_requantize", params, pick.bounds())
