"""Attributes that convolution and pooling share: kernel, strides, pads, dilations."""

from collections.abc import Sequence

from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.windows import window_span

__all__ = ["resolve_pads", "window_attribute"]


def window_attribute(node: OnnxNode, name: str, default: tuple[int, ...] | None) -> tuple[int, ...]:
    """A list attribute of a two-dimensional window, one to four bounded integers."""
    values = node.integers(name, default)
    if values is None:
        raise node.damaged(f"attribute {name} must be given")
    length = 4 if name == "pads" else 2
    if len(values) != length:
        raise node.refuse(
            f"{name} must have {length} values, not {list(values)}",
            "only two-dimensional maps are supported",
        )
    return values


def resolve_pads(
    node: OnnxNode,
    extents: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[int, int, int, int]:
    """(top, left, bottom, right), from `pads` or from `auto_pad`.

    Source: ONNX Conv-11, attribute auto_pad.
    """
    mode = node.text("auto_pad", "NOTSET")
    explicit = window_attribute(node, "pads", (0, 0, 0, 0))
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
