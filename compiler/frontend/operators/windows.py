"""Attributes that convolution and pooling share: kernel, strides, pads, dilations."""

from collections.abc import Sequence

from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.graph.window_extents import window_span

__all__ = ["resolve_pads", "window_attribute"]


def window_attribute(
    node: OnnxNode, name: str, default: tuple[int, ...] | None, num_axes: int = 2
) -> tuple[int, ...]:
    """A list attribute of a window of one or two dimensions, as that of a window over a map: a
    window over a sequence has height 1 and no pads above and below.

    Parameters
    ----------
    default : of a window over a map; None if the attribute must be given.
    num_axes : dimensions of the window that the attribute describes.
    """
    values = node.integers(name, None)
    if values is None and default is None:
        raise node.damaged(f"attribute {name} must be given")
    if values is None:
        assert default is not None
        return default
    length = 2 * num_axes if name == "pads" else num_axes
    if len(values) != length:
        raise node.refuse(
            f"{name} must have {length} values, not {list(values)}",
            "windows must have as many dimensions as the map",
        )
    if num_axes == 2:
        return values
    if name == "pads":
        return (0, values[0], 0, values[1])
    return (0 if name == "output_padding" else 1, *values)


def resolve_pads(
    node: OnnxNode,
    extents: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    num_axes: int = 2,
    mode: str | None = None,
) -> tuple[int, int, int, int]:
    """(top, left, bottom, right), from `pads` or from `auto_pad`, of a window of `num_axes`.

    Parameters
    ----------
    mode : `auto_pad`, where the caller has read it.

    Source: ONNX Conv-11, attribute auto_pad.
    """
    mode = node.text("auto_pad", "NOTSET") if mode is None else mode
    explicit = window_attribute(node, "pads", (0, 0, 0, 0), num_axes)
    if mode == "NOTSET":
        return (explicit[0], explicit[1], explicit[2], explicit[3])
    if mode == "VALID":
        return (0, 0, 0, 0)
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise node.damaged(
            f"auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, not {mode!r}"
        )
    before, after = [], []
    for axis in range(2):
        if strides[axis] < 1:
            raise node.damaged(f"strides must be positive, not {list(strides)}")
        num_outputs = -(-extents[axis] // strides[axis])
        needed = window_span(num_outputs, kernel[axis], strides[axis], dilations[axis])
        total = max(needed - extents[axis], 0)
        small, large = total // 2, total - total // 2
        before.append(small if mode == "SAME_UPPER" else large)
        after.append(large if mode == "SAME_UPPER" else small)
    return (before[0], before[1], after[0], after[1])
