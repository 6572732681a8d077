"""Operators with random operands, built and scheduled for the accelerator."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from daedal.compiler import te
from daedal.compiler.codegen.intrinsics import accumulator_dtype, element_dtype
from daedal.compiler.graph.window_extents import window_reach
from daedal.compiler.ops.accelerator.conv.conv2d import schedule_conv2d
from daedal.compiler.ops.accelerator.conv.cost import ConvTile
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.tiles.template import TileTemplate
from daedal.compiler.ops.accelerator.vector.pool_by_columns import columns_template
from daedal.compiler.ops.accelerator.vector.vector import (
    elementwise_template,
    move_template,
    pool_template,
)
from daedal.compiler.ops.conv2d import Gather, conv2d
from daedal.compiler.ops.elementwise import add
from daedal.compiler.ops.pooling import avg_pool, max_pool
from daedal.compiler.ops.requantize import Bounds, requantize
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.variant import Variant
from tests.support.accelerator import (
    BOUNDS,
    Compiled,
    check_operator,
    random_bytes,
    random_params,
)


@dataclass
class Case:
    """One operator: formula, function before and after its schedule, and operands.

    `template` has its other schedules.
    """

    variant: Variant
    y: te.Tensor
    original: PrimFunc
    schedule: Schedule
    arrays: dict[str, np.ndarray]
    template: TileTemplate | None = field(default=None, kw_only=True)

    def check(self, interpret: bool = True, renaming: bool = True) -> Compiled:
        func = self.schedule.func
        return check_operator(
            self.variant, self.y, self.original, func, self.arrays, interpret, renaming
        )


def blocked(
    variant: Variant, name: str, shape: Sequence[int], lanes: int | None = None
) -> te.Tensor:
    """A map (NB, CB, H, W) in the blocks of the variant, as vectors of `lanes` channels."""
    lanes = lanes or variant.array.block_out
    rows = (variant.block // lanes, variant.array.batch, lanes)
    return te.placeholder((*shape, *rows), element_dtype(variant.array.input_bits), name)


def random_elements(rng: np.random.Generator, tensor: te.Tensor, bits: int) -> np.ndarray:
    """Any values of `bits` bits in the dtype of `tensor`."""
    limit = 1 << (bits - 1)
    return rng.integers(-limit, limit, tensor.shape).astype(tensor.dtype)


def size_for_window(
    size: Sequence[int],
    kernel: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int] = (1, 1),
) -> tuple[int, int]:
    """Rows and columns of a map: `size`, or more where a window with its pads does not fit."""
    height, width = (
        max(size[dim], window_reach(kernel[dim], dilations[dim]) - pads[dim] - pads[dim + 2])
        for dim in range(2)
    )
    return height, width


def conv_case(
    variant: Variant,
    rng: np.random.Generator,
    shape: Sequence[int],
    out_blocks: int,
    kernel: tuple[int, int],
    strides: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilations: tuple[int, int] = (1, 1),
    bounds: Bounds = BOUNDS,
    pad_value: int = 5,
    tile: ConvTile | None = None,
    groups: int = 1,
    gather: Gather | None = None,
) -> Case:
    """Convolution of (NB, IB, H, W); with groups NB counts images times groups."""
    array, block = variant.array, variant.block
    x = blocked(variant, "x", shape, array.block_in)
    outs, ins = groups * out_blocks * block // array.block_out, shape[1] * block // array.block_in
    w_shape = (outs, ins, *kernel, array.block_out, array.block_in)
    w = te.placeholder(w_shape, element_dtype(array.weight_bits), "w")
    params = te.placeholder((outs, array.block_out, 3), "int64", "params")
    y = conv2d(
        x,
        w,
        params,
        strides=strides,
        pads=pads,
        dilations=dilations,
        pad_value=pad_value,
        bounds=bounds,
        groups=groups,
        accumulator=accumulator_dtype(variant),
        gather=gather,
    )
    func = te.create_prim_func([x, w, params], [y], "conv2d")
    geometry = ConvShape.of(x, w, y, strides, dilations, pads, pad_value, gather=gather)
    arrays = {
        "x": random_elements(rng, x, array.input_bits),
        "w": random_elements(rng, w, array.weight_bits),
        "params": random_params(rng, outs, array.block_out),
    }
    return Case(variant, y, func, schedule_conv2d(func, geometry, variant, tile), arrays)


def add_case(variant: Variant, rng: np.random.Generator, shape: Sequence[int]) -> Case:
    """Addition of two maps."""
    a, b = blocked(variant, "a", shape), blocked(variant, "b", shape)
    params = te.placeholder((1, variant.array.block_out, 3), "int64", "params")
    y = add(a, b, params, multiplier_a=1234, multiplier_b=-3210, bounds=BOUNDS)
    func = te.create_prim_func([a, b, params], [y], "add")
    row = np.broadcast_to(np.array([777, 1, 12]), params.shape).copy()
    arrays = {"a": random_bytes(rng, a.shape), "b": random_bytes(rng, b.shape), "params": row}
    return Case(variant, y, func, elementwise_template(func, variant).schedule(), arrays)


def requantize_case(variant: Variant, rng: np.random.Generator, shape: Sequence[int]) -> Case:
    """Requantization of a map."""
    x = blocked(variant, "x", shape)
    params = te.placeholder((1, variant.array.block_out, 3), "int64", "params")
    y = requantize(x, params, bounds=BOUNDS)
    func = te.create_prim_func([x, params], [y], "requantize")
    row = np.broadcast_to(np.array([7, 100_001, 17]), params.shape).copy()
    arrays = {"x": random_bytes(rng, x.shape), "params": row}
    return Case(variant, y, func, move_template(func, variant).schedule(), arrays)


def pool_case(
    variant: Variant,
    rng: np.random.Generator,
    shape: Sequence[int],
    kernel: tuple[int, int],
    strides: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    rows: Sequence[Sequence[int]] | None = None,
    large: bool = False,
    keeps_values: bool = False,
    pad_value: int = 5,
) -> Case:
    """Maximum, or with `rows` (parameter row per output) average over windows; `large` ones have
    the schedule that takes them in steps. With `keeps_values` a maximum is not requantized.
    `pad_value` is that of an average."""
    x = blocked(variant, "x", shape)
    count = 1 if rows is None else 1 + max(max(line) for line in rows)
    params = te.placeholder((count, variant.array.block_out, 3), "int64", "params")
    bounds = None if keeps_values else BOUNDS
    window = {"kernel": kernel, "strides": strides, "pads": pads, "bounds": bounds}
    window |= {"accumulator": accumulator_dtype(variant)}
    if rows is None:
        y, reduction = max_pool(x, params, pad_value=-128, **window), "max"
    else:
        y, reduction = avg_pool(x, params, pad_value=pad_value, rows=rows, **window), "add"
    func = te.create_prim_func([x, params], [y], "pool")
    if large:
        template = columns_template(func, kernel, reduction, variant)
    else:
        template = pool_template(func, kernel, strides, reduction, variant)
    table = np.zeros(params.shape, dtype=np.int64)
    table[..., 1] = 100_001 + 5_000 * np.arange(count)[:, None]
    table[..., 2] = 17 if rows is None else 19
    arrays = {"x": random_elements(rng, x, variant.array.input_bits), "params": table}
    return Case(variant, y, func, template.schedule(), arrays, template=template)
