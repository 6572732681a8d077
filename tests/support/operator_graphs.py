"""Every operator of the accelerator as a graph of one layer with random shapes and values.

An operator that is new adds a function and its line in `OPERATORS`; all tests of equality between
the levels of the compiler then cover it. Shapes are odd on purpose: channels that do not fill a
block, maps of one pixel, pads of different width on every side.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import AttrValue, Graph
from daedal.compiler.graph.ops.matmul import correction
from daedal.compiler.graph.types import TensorType
from daedal.isa.variant import Variant

__all__ = ["OPERATORS", "Operator", "Pick", "inputs_of"]

T = TypeVar("T")

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Pick:
    """Where choices come from: a random generator, or hypothesis, which makes them smaller.

    Parameters
    ----------
    integer : a number from the first argument to the second, both included.
    rng : for the values of tensors.
    """

    integer: Callable[[int, int], int]
    rng: np.random.Generator

    @classmethod
    def seeded(cls, seed: Sequence[int]) -> "Pick":
        """Choices that follow from `seed` alone."""
        rng = np.random.default_rng(seed)
        return cls(lambda low, high: int(rng.integers(low, high + 1)), rng)

    @classmethod
    def drawn(cls, data: st.DataObject, seed: int) -> "Pick":
        """Choices of hypothesis; the values of tensors follow from `seed`."""
        rng = np.random.default_rng(seed)
        return cls(lambda low, high: data.draw(st.integers(low, high)), rng)

    def one_of(self, items: Sequence[T]) -> T:
        return items[self.integer(0, len(items) - 1)]

    def pair(self, low: int, high: int) -> tuple[int, int]:
        return self.integer(low, high), self.integer(low, high)


def inputs_of(graph: Graph, pick: Pick) -> dict[str, Array]:
    """Values for the inputs of a graph: any, or only the extremes."""
    return {name: _int8(pick, graph.types[name].shape) for name in graph.inputs}


def _int8(pick: Pick, shape: tuple[int, ...]) -> Array:
    if pick.integer(0, 3) == 3:
        return pick.rng.choice([-128, 127], shape).astype(np.int8)
    return pick.rng.integers(-128, 128, shape).astype(np.int8)


def _channels(pick: Pick, variant: Variant) -> int:
    """Fewer than a block, a whole one, or more than one."""
    block = variant.block
    return pick.integer(1, min(2 * block + 3, 40))


def _params(
    pick: Pick, variant: Variant, rows: int, shifts: tuple[int, int], multiplier: int | None = None
) -> Array:
    """(rows, 3): bias, multiplier and shift, now and then as large as they may be."""
    top = (1 << variant.units.multiplier_bits) - 1
    factors = pick.rng.integers(top // 2, top + 1, rows)
    if multiplier is not None:
        factors[:] = multiplier
    bias = pick.rng.integers(-3000, 3001, rows)
    if pick.integer(0, 7) == 7:
        limit = 1 << (variant.array.accumulator_bits - 1)
        bias = pick.rng.choice([-limit, limit - 1], rows)
    return np.stack([bias, factors, pick.rng.integers(shifts[0], shifts[1] + 1, rows)], axis=-1)


def _bounds(pick: Pick) -> dict[str, AttrValue]:
    low, high = sorted(pick.pair(-128, 127)) if pick.integer(0, 2) == 2 else (-128, 127)
    return {"zero_point": pick.integer(-128, 127), "low": low, "high": high}


def _window(pick: Pick, dilated: bool) -> tuple[tuple[int, int], dict[str, AttrValue]]:
    """A map (H, W), and a window that fits into it with its pads; pools pad less than a window."""
    kernel = pick.pair(1, pick.one_of((1, 2, 3, 5)))
    dilations = pick.pair(1, 2) if dilated else (1, 1)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    widest = [size if dilated else size - 1 for size in reach]
    pads = tuple(pick.integer(0, min(widest[side % 2], 3)) for side in range(4))
    least = [max(1, reach[axis] - pads[axis] - pads[axis + 2]) for axis in range(2)]
    height, width = (pick.integer(size, size + 6) for size in least)
    attrs: dict[str, AttrValue] = {"strides": pick.pair(1, 3), "pads": pads}
    if dilated:
        return (height, width), {"kernel": kernel, "dilations": dilations, **attrs}
    return (height, width), {"kernel": kernel, **attrs}


class _Layer:
    """Builds a graph around one node."""

    def __init__(self) -> None:
        self.builder = GraphBuilder("layer")
        self.operands: list[str] = []

    def map(self, name: str, shape: tuple[int, ...]) -> None:
        self.operands.append(self.builder.input(name, TensorType(shape, "int8")))

    def constant(self, name: str, array: Array) -> None:
        self.operands.append(self.builder.constant(name, array))

    def finish(self, op: str, attrs: dict[str, AttrValue]) -> Graph:
        return self.builder.finish([self.builder.add(op, self.operands, attrs, output="y")])


def _convolution(
    pick: Pick, variant: Variant, groups: int, per_group: tuple[int, int], batches: int
) -> Graph:
    extents, attrs = _window(pick, dilated=True)
    kernel = attrs.pop("kernel")
    assert isinstance(kernel, tuple)
    ins, outs = per_group
    layer = _Layer()
    layer.map("x", (batches, groups * ins, *extents))
    layer.constant("w", _int8(pick, (groups * outs, ins, *kernel)))
    layer.constant("params", _params(pick, variant, groups * outs, (22, 28)))
    pad_value = pick.integer(-128, 127)
    return layer.finish(
        "q_conv2d", {**attrs, "groups": groups, "pad_value": pad_value, **_bounds(pick)}
    )


def conv2d(pick: Pick, variant: Variant) -> Graph:
    channels = _channels(pick, variant), _channels(pick, variant)
    return _convolution(pick, variant, 1, channels, pick.integer(1, 2))


def grouped_conv2d(pick: Pick, variant: Variant) -> Graph:
    return _convolution(pick, variant, pick.integer(2, 4), pick.pair(1, 6), 1)


def depthwise_conv2d(pick: Pick, variant: Variant) -> Graph:
    return _convolution(pick, variant, _channels(pick, variant), (1, 1), pick.integer(1, 2))


def _map_shape(pick: Pick, variant: Variant) -> tuple[int, ...]:
    return (pick.integer(1, 2), _channels(pick, variant), *pick.pair(1, 7))


def add(pick: Pick, variant: Variant) -> Graph:
    layer, shape = _Layer(), _map_shape(pick, variant)
    layer.map("a", shape)
    layer.map("b", shape)
    layer.constant("params", _params(pick, variant, 1, (8, 20), multiplier=1))
    first, second = (pick.integer(-32767, 32767) for _ in range(2))
    return layer.finish("q_add", {"multiplier_a": first, "multiplier_b": second, **_bounds(pick)})


def requantize(pick: Pick, variant: Variant) -> Graph:
    layer = _Layer()
    layer.map("x", _map_shape(pick, variant))
    layer.constant("params", _params(pick, variant, 1, (15, 18)))
    return layer.finish("q_requantize", _bounds(pick))


def max_pool(pick: Pick, variant: Variant) -> Graph:
    extents, attrs = _window(pick, dilated=False)
    layer = _Layer()
    layer.map("x", (pick.integer(1, 2), _channels(pick, variant), *extents))
    layer.constant("params", _params(pick, variant, 1, (15, 18)))
    return layer.finish("q_max_pool", {**attrs, "pad_value": -128, **_bounds(pick)})


def avg_pool(pick: Pick, variant: Variant) -> Graph:
    """One row of parameters for each number of elements that a window may have."""
    extents, attrs = _window(pick, dilated=False)
    kernel, strides, pads = (attrs[name] for name in ("kernel", "strides", "pads"))
    assert isinstance(kernel, tuple) and isinstance(strides, tuple) and isinstance(pads, tuple)
    counts = []
    for axis in range(2):
        size, before, behind = extents[axis], pads[axis], pads[axis + 2]
        starts = range(-before, size + behind - kernel[axis] + 1, strides[axis])
        counts.append([min(s + kernel[axis], size) - max(s, 0) for s in starts])
    divisors = sorted({h * w for h in counts[0] for w in counts[1]})
    layer = _Layer()
    layer.map("x", (1, _channels(pick, variant), *extents))
    layer.constant("params", _params(pick, variant, len(divisors), (16, 22)))
    return layer.finish(
        "q_avg_pool",
        {
            **attrs,
            "pad_value": pick.integer(-128, 127),
            "counts_h": tuple(counts[0]),
            "counts_w": tuple(counts[1]),
            "divisors": tuple(divisors),
            **_bounds(pick),
        },
    )


def matmul(pick: Pick, variant: Variant) -> Graph:
    """Every pixel of one map with every pixel of another, over their channels: whole blocks."""
    images, depth = pick.integer(1, 2), pick.integer(1, 2) * variant.block
    columns = pick.integer(1, 2) * variant.block
    first, second = (pick.one_of((-128, -7, 0, 127)) for _ in range(2))
    layer = _Layer()
    layer.map("a", (images, depth, *pick.pair(1, 4)))
    layer.map("b", (images, depth, columns, 1))
    layer.constant("factor", np.array([correction(second)[0]], dtype=np.int8))
    layer.constant("params", _params(pick, variant, 1, (22, 28)))
    zero_points: dict[str, AttrValue] = {"zero_point_a": first, "zero_point_b": second}
    return layer.finish("q_matmul", {**zero_points, **_bounds(pick)})


def _is_square(variant: Variant) -> bool:
    array = variant.array
    return array.batch == 1 and array.block_in == array.block_out


def _is_any(variant: Variant) -> bool:
    return True


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
    "grouped_conv2d": Operator(grouped_conv2d),
    "depthwise_conv2d": Operator(depthwise_conv2d),
    "matmul": Operator(matmul, _is_square),
    "add": Operator(add),
    "requantize": Operator(requantize),
    "max_pool": Operator(max_pool),
    "avg_pool": Operator(avg_pool),
}
