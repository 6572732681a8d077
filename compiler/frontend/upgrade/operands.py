"""Rules for attributes that became operands.

Source: ONNX, Changelog.md: the operator sets that each rule names.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from daedal.compiler.frontend.upgrade.rule import ModelUpgrade, Rule, attribute, take

__all__ = ["RULES"]

_REDUCTIONS = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSumSquare",
)


def _put(node: onnx.NodeProto, position: int, name: str) -> None:
    """Make `name` operand number `position`."""
    missing = position + 1 - len(node.input)
    node.input.extend([""] * max(missing, 0))
    node.input[position] = name


def _integers(
    name: str, position: int = 1, scalar: bool = False, default: int | None = None
) -> Rule:
    """``Op(x, name=[...])`` becomes ``Op(x, [...])``; an empty attribute is as good as none."""

    def rule(node: onnx.NodeProto, context: ModelUpgrade) -> Sequence[onnx.NodeProto]:
        found = take(node, name, default)
        value = np.asarray([] if found is None else found, np.int64)
        if value.size:
            _put(node, position, context.add(value if scalar else value.reshape(-1), np.int64))
        return [node]

    return rule


def _clip(node: onnx.NodeProto, context: ModelUpgrade) -> Sequence[onnx.NodeProto]:
    """``Clip(x, min=, max=)`` becomes ``Clip(x, min, max)``.

    An absent bound, by default that of float32, stays absent, which differs for infinities.
    """
    for position, name in enumerate(("min", "max"), 1):
        bound = take(node, name)
        if bound is not None:
            _put(node, position, context.add_like(bound, node.input[0]))
    return [node]


def _pad(node: onnx.NodeProto, context: ModelUpgrade) -> Sequence[onnx.NodeProto]:
    """``Pad(x, pads=, value=)`` becomes ``Pad(x, pads, value)``."""
    pads, value = take(node, "pads"), take(node, "value", 0.0)
    _put(node, 1, context.add(pads, np.int64))
    if value:
        _put(node, 2, context.add_like(value, node.input[0]))
    return [node]


def _slice(node: onnx.NodeProto, context: ModelUpgrade) -> Sequence[onnx.NodeProto]:
    """``Slice(x, starts=, ends=, axes=)`` becomes ``Slice(x, starts, ends, axes)``."""
    for position, name in enumerate(("starts", "ends", "axes"), 1):
        found = take(node, name)
        if found is not None:
            _put(node, position, context.add(found, np.int64))
    return [node]


def _upsample(node: onnx.NodeProto, context: ModelUpgrade) -> Sequence[onnx.NodeProto]:
    """``Upsample(x, scales=)`` becomes ``Upsample(x, scales)``."""
    _put(node, 1, context.add(take(node, "scales"), np.float32))
    return [node]


def _split(node: onnx.NodeProto, context: ModelUpgrade) -> Sequence[onnx.NodeProto]:
    """``Split(x)`` becomes ``Split(x, num_outputs=)``: one of the two must say the parts."""
    if len(node.input) < 2 or not node.input[1]:
        node.attribute.append(helper.make_attribute("num_outputs", len(node.output)))
    return [node]


def _dropout_mask(node: onnx.NodeProto, context: ModelUpgrade) -> Sequence[onnx.NodeProto]:
    """The mask, once of the type of the operand, is bool: ``Dropout`` becomes ``Cast(Dropout)``."""
    if len(node.output) < 2 or not node.output[1]:
        return [node]
    mask, kind = node.output[1], context.element_type(node.input[0]) or onnx.TensorProto.FLOAT
    node.output[1] = context.name()
    return [node, helper.make_node("Cast", [node.output[1]], [mask], to=kind)]


def _dropout_ratio(node: onnx.NodeProto, context: ModelUpgrade) -> Sequence[onnx.NodeProto]:
    """``Dropout(x, ratio=)`` becomes ``Dropout(x)``: at inference the ratio has no effect."""
    take(node, "ratio")
    return [node]


def _grid_mode(node: onnx.NodeProto, context: ModelUpgrade) -> Sequence[onnx.NodeProto]:
    """GridSample's modes have names for any number of axes."""
    names = {b"bilinear": "linear", b"bicubic": "cubic"}
    mode = attribute(node, "mode", b"bilinear")
    if mode in names:
        take(node, "mode")
        node.attribute.append(helper.make_attribute("mode", names[mode]))
    return [node]


RULES: Mapping[str, Mapping[int, Rule]] = {
    **{name: {18: _integers("axes")} for name in _REDUCTIONS},
    "Clip": {11: _clip},
    "DFT": {20: _integers("axis", 2, scalar=True, default=1)},
    "Dropout": {10: _dropout_mask, 12: _dropout_ratio},
    "GridSample": {20: _grid_mode},
    "Pad": {11: _pad},
    "ReduceSum": {13: _integers("axes")},
    "Slice": {10: _slice},
    "Split": {13: _integers("split"), 18: _split},
    "Squeeze": {13: _integers("axes")},
    "TopK": {10: _integers("k")},
    "Unsqueeze": {13: _integers("axes")},
    "Upsample": {9: _upsample},
}
"""By operator, and the operator set that moved the attribute."""
