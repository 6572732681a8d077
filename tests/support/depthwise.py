"""Depthwise convolutions with random operands for tests, and what they give by numpy alone."""

from dataclasses import dataclass

import numpy as np

from daedal.compiler import te
from daedal.compiler.codegen.intrinsics import accumulator_dtype, element_dtype
from daedal.compiler.graph.layout import DepthwiseLayout
from daedal.compiler.ops.accelerator.depthwise.depthwise import schedule_depthwise
from daedal.compiler.ops.accelerator.depthwise.shape import DepthwiseShape, DepthwiseTile
from daedal.compiler.ops.depthwise import depthwise_conv2d
from daedal.compiler.ops.requantize import Bounds
from daedal.isa.numerics import integer_range
from daedal.isa.variant import Variant
from tests.support.accelerator import BOUNDS, Compiled, memory_of
from tests.support.accelerator_operators import Case, random_elements

__all__ = ["DepthwiseCase", "Window", "depthwise_case", "taps_of"]


@dataclass(frozen=True)
class Window:
    """How a window passes over a map, and what is around the map."""

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    pad_value: int = 5

    def least_size(self) -> tuple[int, int]:
        """The smallest map on which there is a window."""
        top, left, bottom, right = self.pads
        height, width = ((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))
        return max(1, height - top - bottom), max(1, width - left - right)


def taps_of(variant: Variant, window: Window) -> int:
    """Taps of a product: as many as the variant has where they are neighbours."""
    together = window.kernel[1] > 1 and window.dilations[1] == 1
    return variant.array.depthwise_taps if together else 1


@dataclass
class DepthwiseCase:
    """An operator at every level, and its expected bytes."""

    case: Case
    expected: np.ndarray

    def check(self, interpret: bool = True) -> Compiled:
        """te = loop IR = functional simulator = numpy."""
        compiled = self.case.check(interpret)
        np.testing.assert_array_equal(compiled.result, self.expected)
        return compiled


def depthwise_case(
    variant: Variant,
    rng: np.random.Generator,
    shape: tuple[int, int, int, int],
    window: Window,
    bounds: Bounds = BOUNDS,
    tile: DepthwiseTile | None = None,
    extreme: bool = False,
) -> DepthwiseCase:
    """Depthwise convolution of (NB, CB, H, W); `extreme` operands are the largest there are."""
    array, blocks = variant.array, shape[1]
    block, taps = array.block_out, taps_of(variant, window)
    x_shape = (*shape, 1, array.batch, block)
    x = te.placeholder(x_shape, element_dtype(array.input_bits), "x")
    layout = DepthwiseLayout(window.kernel, block, taps)
    w_shape = layout.physical_shape((blocks * block, 1, *window.kernel))
    w = te.placeholder(w_shape, element_dtype(array.weight_bits), "w")
    params = te.placeholder((blocks, block, 3), "int64", "params")
    y = depthwise_conv2d(
        x,
        w,
        params,
        kernel_width=window.kernel[1],
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        pad_value=window.pad_value,
        bounds=bounds,
        accumulator=accumulator_dtype(variant),
    )
    func = te.create_prim_func([x, w, params], [y], "depthwise")
    geometry = DepthwiseShape.of(
        x, w, y, strides=window.strides, dilations=window.dilations, pads=window.pads[:2]
    )
    kernel = te.placeholder((blocks * block, 1, *window.kernel), w.dtype, "kernel")
    weights = random_elements(rng, kernel, array.weight_bits)
    values = random_elements(rng, x, array.input_bits)
    if extreme:
        weights[:] = integer_range(array.weight_bits)[0]
        values[:] = integer_range(array.input_bits)[0]
    sums = _sums(values, weights, window)
    arrays = {"x": values, "w": layout.pack(weights), "params": _params(variant, rng, sums, blocks)}
    schedule = schedule_depthwise(func, geometry, variant, tile)
    expected = memory_of(_requantized(sums, arrays["params"], bounds), variant)
    return DepthwiseCase(Case(variant, y, func, schedule, arrays), expected)


def _sums(x: np.ndarray, weights: np.ndarray, window: Window) -> np.ndarray:
    """Sums over taps: (NB, CB, OH, OW, 1, batch, block); weights (CB * block, 1, KH, KW)."""
    top, left, bottom, right = window.pads
    space = ((0, 0), (0, 0), (top, bottom), (left, right), (0, 0), (0, 0), (0, 0))
    padded = np.pad(x.astype(np.int64), space, constant_values=window.pad_value)
    taps = weights.reshape(x.shape[1], x.shape[-1], *window.kernel).astype(np.int64)
    total: np.ndarray | None = None
    for row in range(window.kernel[0]):
        for column in range(window.kernel[1]):
            begin = (row * window.dilations[0], column * window.dilations[1])
            stop = [
                padded.shape[2 + k] - (window.kernel[k] - 1) * window.dilations[k] + begin[k]
                for k in range(2)
            ]
            tap = padded[:, :, begin[0] : stop[0] : window.strides[0]]
            tap = tap[:, :, :, begin[1] : stop[1] : window.strides[1]]
            product = tap * taps[:, None, None, None, None, :, row, column]
            total = product if total is None else total + product
    assert total is not None
    return total


def _params(
    variant: Variant, rng: np.random.Generator, sums: np.ndarray, blocks: int
) -> np.ndarray:
    """Parameters that spread `sums` over the range of the results."""
    size = (blocks, variant.array.block_out)
    bits = variant.units.multiplier_bits
    spread = max(1.0, float(np.abs(sums).mean()))
    bias = rng.integers(-int(spread), int(spread) + 1, size)
    multiplier = rng.integers(1 << (bits - 1), 1 << bits, size)
    wanted = integer_range(variant.array.output_bits)[1] / 2 / spread
    shift = np.full(size, max(0, bits - 1 - round(np.log2(wanted))))
    return np.stack([bias, multiplier, shift], axis=-1)


def _requantized(sums: np.ndarray, params: np.ndarray, bounds: Bounds) -> np.ndarray:
    """``clip(round((acc + bias) * multiplier / 2**shift) + zero_point)``, half to even."""
    bias, multiplier, shift = (params[:, None, None, None, None, :, k] for k in range(3))
    product = (sums + bias) * multiplier
    whole = product >> shift
    twice = 2 * (product - (whole << shift))
    up = (twice > 1 << shift) | ((twice == 1 << shift) & (whole % 2 == 1))
    return np.clip(whole + up + bounds.zero_point, bounds.low, bounds.high)
