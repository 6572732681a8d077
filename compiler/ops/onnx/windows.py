"""What convolutions and pools share: where windows lie, and padded copies of what they slide over.

Input: attributes of a node and the spatial extents of its operand. Output: `Window`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.graph.window_extents import output_extent, pool_extent, window_reach
from daedal.compiler.ops.onnx.operation import Operand, Operation
from daedal.compiler.tir.expr import Axis, Expr, IntImm

__all__ = [
    "Window",
    "auto_pad",
    "is_faster_in_turn",
    "padded_copy",
    "per_dimension",
    "taps_of",
    "window_of",
]

STORED = 6
"""Taps that take as long as to store an element between two reductions, and to read it."""


@dataclass(frozen=True)
class Window:
    """A window that slides over the spatial dimensions of a map; a number per dimension each.

    Attributes
    ----------
    extents : of the map.
    before, after : pads, as the node gives them.
    out : how many positions the window takes.
    """

    extents: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    out: tuple[int, ...]

    @property
    def num_dims(self) -> int:
        """How many spatial dimensions there are."""
        return len(self.extents)

    @property
    def overhang(self) -> tuple[int, ...]:
        """How far windows reach behind the end of the map, at least 0: `after`, or more in
        ceil_mode, or less where the last position does not use all pads."""
        return tuple(
            max((out - 1) * stride + (kernel - 1) * dilation + 1 - before - extent, 0)
            for extent, kernel, stride, dilation, before, out in zip(
                self.extents,
                self.kernel,
                self.strides,
                self.dilations,
                self.before,
                self.out,
                strict=True,
            )
        )

    def places(self, positions: Sequence[Expr], taps: Sequence[Expr]) -> tuple[Expr, ...]:
        """Indices into the padded map of each tap of the windows at `positions`."""
        return tuple(
            position * stride + tap * dilation
            for position, tap, stride, dilation in zip(
                positions, taps, self.strides, self.dilations, strict=True
            )
        )

    def tap_inside(self) -> tuple[int, ...] | None:
        """A tap that lies in the map at every position of the window; None where there is none."""
        found = []
        for dim, extent in enumerate(self.extents):
            step, low = self.dilations[dim], self.before[dim]
            last = (self.out[dim] - 1) * self.strides[dim] - low
            tap = -(-low // step)
            if tap >= self.kernel[dim] or last + tap * step >= extent:
                return None
            found.append(tap)
        return tuple(found)


def per_dimension(node: OnnxNode, name: str, count: int, default: int) -> tuple[int, ...]:
    """An attribute with `count` numbers. Raises ModelError for another count."""
    values = node.integers(name, None)
    if not values:
        return (default,) * count
    if len(values) != count:
        raise node.damaged(f"attribute {name} must have {count} numbers, not {len(values)}")
    return values


def auto_pad(node: OnnxNode) -> str:
    """The attribute `auto_pad`, "NOTSET" where it is absent or empty."""
    mode = node.text("auto_pad", "NOTSET") or "NOTSET"
    if mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise node.damaged(
            f"auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, not {mode!r}"
        )
    return mode


def window_of(
    node: OnnxNode, extents: Sequence[int], kernel: Sequence[int], *, ceil_mode: bool | None = None
) -> Window:
    """The window that `strides`, `dilations`, `pads` and `auto_pad` describe; `ceil_mode` is None
    unless it is that of a pool.

    Raises
    ------
    ModelError
        The window takes no position.
    UnsupportedError
        For negative pads.

    Source: ONNX, Conv-22 and MaxPool-22; SAME pads take no notice of ceil_mode.
    """
    count = len(extents)
    mode = auto_pad(node)
    strides = per_dimension(node, "strides", count, 1)
    dilations = per_dimension(node, "dilations", count, 1)
    given = per_dimension(node, "pads", 2 * count, 0)
    if min(*strides, *dilations) < 1:
        raise node.damaged("strides and dilations must be positive")
    if min(given) < 0:
        raise node.refuse("pads must not be negative", "slice the map first")
    pads, out = [], []
    for dim, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
        explicit = (given[dim], given[count + dim])
        span = window_reach(kernel[dim], dilations[dim])
        pads.append(explicit if mode == "NOTSET" else _automatic(mode, extent, stride, span))
        window = (extent, kernel[dim], stride, pads[-1], dilations[dim])
        if ceil_mode is None:
            out.append(output_extent(*window))
        else:
            out.append(pool_extent(*window, ceil=ceil_mode and not mode.startswith("SAME")))
    if min(out) < 1:
        raise node.damaged("a window must not be larger than the padded map")
    before, after = zip(*pads, strict=True)
    return Window(tuple(extents), tuple(kernel), strides, dilations, before, after, tuple(out))


def _automatic(mode: str, extent: int, stride: int, span: int) -> tuple[int, int]:
    """The pads that `auto_pad` gives one dimension."""
    if mode == "VALID":
        return 0, 0
    total = max((-(-extent // stride) - 1) * stride + span - extent, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if mode == "SAME_UPPER" else (large, small)


def padded_copy(
    operation: Operation,
    x: Operand,
    before: Sequence[int],
    after: Sequence[int],
    value: int | float = 0,
) -> Operand:
    """`x` with `value` around its last dimensions as a tensor of its own; `x` where no pads are."""
    if not any(before) and not any(after):
        return x
    lead = x.rank - len(before)
    widths = [*[(0, 0)] * lead, *zip(before, after, strict=True)]
    shape = tuple(low + extent + high for extent, (low, high) in zip(x.shape, widths, strict=True))
    view = x.tensor.padded(value)
    copy = operation.compute(
        shape,
        lambda *i: view[tuple(index - low for index, (low, _) in zip(i, widths, strict=True))],
        "padded",
    )
    return Operand(copy, shape)


def taps_of(extents: Sequence[int]) -> tuple[list[Expr], list[Axis]]:
    """An index per extent to reduce over, and the axes among them: extents of 1 need none.

    Where all are 1, the last one is an axis: a reduction has at least one.
    """
    indices: list[Expr] = []
    axes: list[Axis] = []
    for number, extent in enumerate(extents):
        if extent == 1 and (axes or number + 1 < len(extents)):
            indices.append(IntImm(0))
        else:
            axes.append(te.reduce_axis(extent, f"k{number}"))
            indices.append(axes[-1])
    return indices, axes


def is_faster_in_turn(kernel: Sequence[int], rows_read: int, rows: int) -> bool:
    """Whether windows of two dimensions are reduced along rows first, for each of the `rows_read`
    rows of the padded map, and then along columns: fewer taps, and another tensor in memory."""
    if len(kernel) != 2:
        return False
    high, wide = kernel
    return rows_read * wide + rows * (high + STORED) < rows * high * wide
