"""Elementwise operators and moves with random operands, scheduled, and what numpy makes of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from daedal.compiler import te
from daedal.compiler.codegen.intrinsics import accumulator_dtype
from daedal.compiler.ops.accelerator.tiles.template import TileTemplate
from daedal.compiler.ops.accelerator.vector.vector import elementwise_template, move_template
from daedal.compiler.ops.elementwise import add, leaky_relu, mul
from daedal.compiler.ops.movement import concat, pad_map, resize_nearest, slice_map
from daedal.compiler.ops.requantize import Bounds
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.numerics import integer_range, requantize
from daedal.isa.variant import Variant
from tests.support.accelerator import Compiled, memory_of
from tests.support.accelerator_operators import Case, blocked, random_elements

__all__ = ["VectorCase", "concat_case", "elementwise_case", "pad_case", "resize_case", "slice_case"]

Shape = Sequence[int]


@dataclass
class VectorCase(Case):
    """A case with the accumulators and parameters (bias, multiplier, shift) that numpy expects."""

    accumulators: np.ndarray
    rows: np.ndarray
    bounds: Bounds

    def check(self, interpret: bool = True) -> Compiled:
        """All levels agree with each other, and the machine's bytes with numpy."""
        compiled = super().check(interpret)
        bias, multiplier, shift = (self.rows[..., index] for index in range(3))
        ends = (self.bounds.zero_point, self.bounds.low, self.bounds.high)
        values = requantize(self.accumulators, bias, multiplier, shift, *ends)
        np.testing.assert_array_equal(compiled.result, memory_of(values, self.variant))
        return compiled


def elementwise_case(
    variant: Variant, rng: np.random.Generator, op: str, shape: Shape, other: Shape
) -> VectorCase:
    """`op` in add, mul, leaky_relu over (NB, CB, H, W); the second operand has shape `other`."""
    x = [blocked(variant, name, s) for name, s in (("a", shape), ("b", other))]
    arrays = {t.name: random_elements(rng, t, variant.array.input_bits) for t in x}
    a, b = (array.astype(np.int64) for array in arrays.values())
    bounds, params = _bounds(variant), _params(variant, 1)
    common = {"bounds": bounds, "accumulator": accumulator_dtype(variant)}
    bits = variant.array.input_bits
    match op:
        case "add":
            factors = (int(rng.integers(1, 1 << 15)), int(rng.integers(-(1 << 15), 1 << 15)))
            y = add(*x, params, multiplier_a=factors[0], multiplier_b=factors[1], **common)
            acc, row = factors[0] * a + factors[1] * b, (777, 1, 15)
        case "mul":
            zeros = (int(rng.integers(-7, 7)), int(rng.integers(0, 2)) * 5)
            y = mul(*x, params, zero_point_a=zeros[0], zero_point_b=zeros[1], **common)
            acc, row = (a - zeros[0]) * (b - zeros[1]), (0, 100_001, 17 + bits - 2)
        case _:
            x = x[:1]
            zero, slope = int(rng.integers(-7, 7)), int(rng.integers(-9_000, 40_000))
            factors = (1 << 14, slope)
            y = leaky_relu(
                x[0],
                params,
                zero_point_x=zero,
                multiplier_positive=factors[0],
                multiplier_negative=factors[1],
                **common,
            )
            acc, row = np.where(a < zero, (a - zero) * slope, (a - zero) << 14), (0, 1, 15)
    operands = {t.name: arrays[t.name] for t in x}
    return _case(variant, [*x, params], y, operands, acc, [row], bounds, elementwise_template)


def slice_case(
    variant: Variant,
    rng: np.random.Generator,
    shape: Shape,
    begin: Shape,
    size: Shape,
    steps: tuple[int, int],
    load_columns: bool,
) -> VectorCase:
    """A part of (NB, CB, H, W)."""
    x, array, wide = _map(variant, rng, shape)
    bounds, params = _bounds(variant), _params(variant, 1)
    y = slice_map(
        x,
        params,
        begin=begin,
        shape=size,
        steps=steps,
        bounds=bounds,
        load_columns=load_columns,
        accumulator=accumulator_dtype(variant),
    )
    rows, columns = (
        slice(begin[axis], begin[axis] + (size[axis] - 1) * step + 1, step)
        for axis, step in ((1, steps[0]), (2, steps[1]))
    )
    acc = wide[:, begin[0] : begin[0] + size[0], rows, columns]
    step = steps[1] if load_columns else 1
    schedule = _mover(column_step=step)
    return _case(variant, [x, params], y, {"x": array}, acc, [_ROW], bounds, schedule)


def pad_case(
    variant: Variant, rng: np.random.Generator, shape: Shape, before: Shape, after: Shape
) -> VectorCase:
    """(NB, CB, H, W) with blocks, rows and columns of 5 around it."""
    x, array, wide = _map(variant, rng, shape)
    bounds, params = _bounds(variant), _params(variant, 1)
    size = [b + n + a for b, n, a in zip(before, shape[1:], after, strict=True)]
    y = pad_map(
        x,
        params,
        before=before,
        shape=size,
        pad_value=5,
        bounds=bounds,
        accumulator=accumulator_dtype(variant),
    )
    margins = [(0, 0), *zip(before, after, strict=True), (0, 0), (0, 0), (0, 0)]
    acc = np.pad(wide, margins, constant_values=5)
    return _case(variant, [x, params], y, {"x": array}, acc, [_ROW], bounds, _mover())


def resize_case(
    variant: Variant, rng: np.random.Generator, shape: Shape, factors: tuple[int, int]
) -> VectorCase:
    """Every pixel of (NB, CB, H, W) several times."""
    x, array, wide = _map(variant, rng, shape)
    bounds, params = _bounds(variant), _params(variant, 1)
    y = resize_nearest(
        x, params, factors=factors, bounds=bounds, accumulator=accumulator_dtype(variant)
    )
    acc = wide.repeat(factors[0], axis=2).repeat(factors[1], axis=3)
    schedule = _mover(factors=factors)
    return _case(variant, [x, params], y, {"x": array}, acc, [_ROW], bounds, schedule)


def concat_case(
    variant: Variant, rng: np.random.Generator, shape: Shape, blocks: Shape
) -> VectorCase:
    """Maps (NB, count, H, W) for every count of `blocks`."""
    n, h, w = shape
    maps = [blocked(variant, f"x{i}", (n, count, h, w)) for i, count in enumerate(blocks)]
    arrays = {t.name: random_elements(rng, t, variant.array.input_bits) for t in maps}
    bounds, params = _bounds(variant), _params(variant, len(maps))
    y = concat(maps, params, blocks=blocks, bounds=bounds, accumulator=accumulator_dtype(variant))
    acc = np.concatenate([array.astype(np.int64) for array in arrays.values()], axis=1)
    rows = [(7 * i, 100_001 - 20_000 * i, 17) for i in range(len(maps))]
    schedule = _mover(blocks=1)
    case = _case(variant, [*maps, params], y, arrays, acc, rows, bounds, schedule)
    owner = np.repeat(np.arange(len(maps)), blocks)
    case.rows = np.array(rows)[owner].reshape(1, -1, *[1] * 5, 3)
    return case


_ROW = (7, 100_001, 17)
"""Bias, multiplier and shift of a change of scale by about 0.8."""


def _map(
    variant: Variant, rng: np.random.Generator, shape: Shape
) -> tuple[te.Tensor, np.ndarray, np.ndarray]:
    """A map, its elements, and the same as int64."""
    x = blocked(variant, "x", shape)
    array = random_elements(rng, x, variant.array.input_bits)
    return x, array, array.astype(np.int64)


def _mover(**settings: object) -> Callable[[PrimFunc, Variant], TileTemplate]:
    def make(func: PrimFunc, variant: Variant) -> TileTemplate:
        return move_template(func, variant, **settings)

    return make


def _bounds(variant: Variant) -> Bounds:
    low, high = integer_range(variant.array.output_bits)
    return Bounds(3, low + 1, high - 1)


def _params(variant: Variant, rows: int) -> te.Tensor:
    return te.placeholder((rows, variant.array.block_out, 3), "int64", "params")


def _case(
    variant: Variant,
    inputs: Sequence[te.Tensor],
    y: te.Tensor,
    arrays: dict[str, np.ndarray],
    accumulators: np.ndarray,
    rows: Sequence[tuple[int, int, int]],
    bounds: Bounds,
    make: Callable[[PrimFunc, Variant], TileTemplate],
) -> VectorCase:
    func = te.create_prim_func(inputs, [y], "operator")
    params = inputs[-1]
    table = np.broadcast_to(np.array(rows)[:, None, :], params.shape).copy()
    template = make(func, variant)
    return VectorCase(
        variant,
        y,
        func,
        template.schedule(),
        {**arrays, "params": table},
        accumulators,
        np.array(rows[0]),
        bounds,
        template=template,
    )
