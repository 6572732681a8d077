"""The layers of attention as graphs of one layer."""

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import AttrValue, Graph
from daedal.compiler.graph.ops.attention import ATTENTION_WEIGHTS, MEAN_TABLES, WEIGHTED_MEAN
from daedal.compiler.graph.ops.integer_rows import step_rows
from daedal.compiler.graph.ops.matmul import correction
from daedal.compiler.graph.types import TensorType
from daedal.compiler.integer.attention import (
    FILLER,
    HIDDEN,
    INDEX_BOUNDS,
    MeanConstants,
    hiding_factor,
    index_step,
    mask_of_biases,
    result_unit,
    weight_table,
)
from daedal.isa.numerics import quantize_multiplier
from daedal.isa.variant import Variant
from tests.support.pick import Pick

__all__ = ["attention_weights", "weighted_mean"]

FINISH = ("zero_point", "low", "high")


def _maps(pick: Pick, images: int, depth: int) -> tuple[GraphBuilder, list[str], int]:
    """Inputs of a product of maps of `depth` channels, and how many columns it has."""
    builder = GraphBuilder("layer")
    share = pick.integer(1, 2)
    left, right = (images * share, depth, *pick.pair(1, 4)), (images, depth, *pick.pair(1, 6))
    names = [builder.input(f"x{i}", TensorType(x, "int8")) for i, x in enumerate((left, right))]
    return builder, names, right[2] * right[3]


def attention_weights(pick: Pick, variant: Variant) -> Graph:
    """Weights without a mask, or with one for each image, for each pixel, or for all, which hides
    scores or has a bias for each, sometimes of the last keys alone."""
    images, depth = pick.integer(1, 2), pick.channels(variant)
    builder, operands, keys = _maps(pick, images, depth)
    scale = pick.one_of((0.0005, 0.01, 0.5))
    zero = pick.one_of((-128, 0, 5))
    largest = depth * (128 + abs(zero)) * 128
    hiding, filler = hiding_factor(scale, largest), FILLER
    assert hiding is not None
    factor = hiding
    rows = step_rows([index_step(scale, variant.units.multiplier_bits)])
    constants = {
        "factor": np.array([correction(0)[0]], dtype=np.int8),
        "table": weight_table(scale),
        "params": rows,
    }
    queries = builder.types[operands[0]].shape
    if pick.integer(0, 2):
        count, pixels = pick.one_of((1, queries[0])), pick.one_of(((1, 1), queries[2:]))
        drawn = pick.int8((count, keys, *pixels))
        if pick.integer(0, 1):
            drawn[:, : keys // 2] = 0
        if pick.integer(0, 1):
            found = mask_of_biases(np.moveaxis(drawn, 1, -1) / 20, scale, largest)
            assert found is not None
            factor, filler = 1, found[1]
            constants["mask"] = np.ascontiguousarray(np.moveaxis(found[0], -1, 1))
        else:
            constants["mask"] = np.where(drawn < 0, HIDDEN, 0).astype(np.int8)
    operands += [builder.constant(name, value) for name, value in constants.items()]
    attrs: dict[str, AttrValue] = {
        "zero_point_a": zero,
        "zero_point_b": 0,
        "columns": keys,
        "mask_factor": factor,
        "filler": filler,
        **dict(zip(FINISH, INDEX_BOUNDS, strict=True)),
    }
    return builder.finish([builder.add(ATTENTION_WEIGHTS.name, operands, attrs, output="y")])


def weighted_mean(pick: Pick, variant: Variant) -> Graph:
    """Means by weights that are the entries of a table, so that none is negative."""
    images, keys = pick.integer(1, 2), pick.channels(variant)
    builder, (scores, values), width = _maps(pick, images, keys)
    ramp = np.clip(np.arange(-128, 128), 1, None).astype(np.int8)
    identity = builder.constant("identity", np.array([[0, 1, 0]], dtype=np.int64))
    looked_up = [scores, builder.constant("ramp", ramp), identity]
    whole: dict[str, AttrValue] = {"zero_point": 0, "low": -128, "high": 127}
    weights = builder.add("q_requantize_lookup", looked_up, whole, output="weights")
    bits = variant.units.multiplier_bits
    found = MeanConstants.of(keys, bits)
    zero = pick.integer(-128, 127) * result_unit()
    ratio = pick.one_of((0.5, 1.0, 3.0)) / result_unit()
    constants = {
        "ones": np.ones(1, dtype=np.int8),
        **{name: getattr(found, name) for name in MEAN_TABLES},
        "steps": step_rows(found.bit_steps, [found.mantissa]),
        "params": np.array([[zero, *quantize_multiplier(ratio, bits)]]),
    }
    operands = [weights, values, *(builder.constant(*item) for item in constants.items())]
    attrs: dict[str, AttrValue] = {
        "zero_point_a": 0,
        "zero_point_b": 0,
        "columns": width,
        "sum_bits": found.sum_bits,
        **pick.bounds(),
    }
    return builder.finish([builder.add(WEIGHTED_MEAN.name, operands, attrs, output="y")])
