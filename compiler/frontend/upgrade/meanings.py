"""Rules for operators whose meaning or name changed.

Source: ONNX, Changelog.md: the operator sets that each rule names.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from daedal.common.errors import ModelError
from daedal.compiler.frontend.upgrade.rule import ModelUpgrade, Rule, attribute, take

__all__ = ["RULES"]


def _refused(reason: str) -> Rule:
    def rule(node: onnx.NodeProto, context: ModelUpgrade) -> Sequence[onnx.NodeProto]:
        raise ModelError(reason)

    return rule


def _renamed(op_type: str) -> Rule:
    def rule(node: onnx.NodeProto, context: ModelUpgrade) -> Sequence[onnx.NodeProto]:
        node.op_type = op_type
        return [node]

    return rule


def _with_default(name: str, value: str) -> Rule:
    """Write down what was the default until now."""

    def rule(node: onnx.NodeProto, context: ModelUpgrade) -> Sequence[onnx.NodeProto]:
        if attribute(node, name) is None:
            node.attribute.append(helper.make_attribute(name, value))
        return [node]

    return rule


def _over_one_axis(node: onnx.NodeProto, context: ModelUpgrade) -> Sequence[onnx.NodeProto]:
    """Softmax and its like went over all axes from `axis` on together, now over `axis` alone::

    Softmax(x, axis=k)  ->  Reshape(Softmax(Flatten(x, axis=k), axis=-1), shape of x)
    """
    axis, (x, y) = take(node, "axis", 1), (node.input[0], node.output[0])
    rank, shape = context.rank(x), context.shape(x)
    node.attribute.append(helper.make_attribute("axis", -1))
    if rank is not None and axis in (-1, rank - 1):
        return [node]
    flat, result, old = context.name(), context.name(), context.name()
    node.input[0], node.output[0] = flat, result
    before = [helper.make_node("Flatten", [x], [flat], axis=axis)]
    if shape is None:
        before.append(helper.make_node("Shape", [x], [old]))
    else:
        old = context.add(shape, np.int64)
    return [*before, node, helper.make_node("Reshape", [result, old], [y])]


def _resize(node: onnx.NodeProto, context: ModelUpgrade) -> Sequence[onnx.NodeProto]:
    """Coordinates were asymmetric. Nearest elements were those below where an axis grows, and
    those above where it shrinks: two Resizes where some axes do the one and some the other.

    Source: ONNX's tests of opset 10 (resize_downsample_nearest); onnxruntime, upsamplebase.h.
    """
    x, scales = node.input
    y, mode = node.output[0], attribute(node, "mode", b"nearest").decode()
    common = {"mode": mode, "coordinate_transformation_mode": "asymmetric"}

    def resized(source: str, by: str, result: str, rounding: str) -> onnx.NodeProto:
        operands, options = [source, "", by], {**common, "nearest_mode": rounding}
        return helper.make_node("Resize", operands, [result], node.name, **options)

    known = context.value(scales)
    if mode != "nearest" or (known is not None and (known >= 1).all()):
        return [resized(x, scales, y, "floor")]
    if known is not None and (known <= 1).all():
        return [resized(x, scales, y, "ceil")]
    one, up, down, grown = context.add(1, np.float32), *(context.name() for _ in range(3))
    return [
        helper.make_node("Max", [scales, one], [up]),
        helper.make_node("Min", [scales, one], [down]),
        resized(x, up, grown, "floor"),
        resized(grown, down, y, "ceil"),
    ]


def _resize_for_nn(node: onnx.NodeProto, context: ModelUpgrade) -> Sequence[onnx.NodeProto]:
    """``floor((i + 0.5) / scale)``, which has no name any more, is ``half_pixel`` to the nearest.

    With other roundings the name stays: compiled code knows it.
    """
    mode = "coordinate_transformation_mode"
    floors = attribute(node, "nearest_mode", b"round_prefer_floor") == b"floor"
    nearest = attribute(node, "mode", b"nearest") == b"nearest"
    if attribute(node, mode) == b"tf_half_pixel_for_nn" and floors and nearest:
        take(node, mode), take(node, "nearest_mode")
        node.attribute.append(helper.make_attribute(mode, "half_pixel"))
        node.attribute.append(helper.make_attribute("nearest_mode", "round_prefer_ceil"))
    return [node]


def _batch_normalization(node: onnx.NodeProto, context: ModelUpgrade) -> Sequence[onnx.NodeProto]:
    """With ``spatial=0`` each element of a sample had statistics of its own, as large as it."""
    if take(node, "spatial", 1):
        return [node]
    if any(node.output[1:]):
        raise ModelError("it computes statistics, as for training")
    x, scale, bias, mean, variance = node.input
    epsilon = context.add_like(attribute(node, "epsilon", 1e-5), x)
    names = [context.name() for _ in range(5)]
    steps = [
        ("Add", [variance, epsilon]),
        ("Sqrt", names[:1]),
        ("Sub", [x, mean]),
        ("Div", [names[2], names[1]]),
        ("Mul", [names[3], scale]),
        ("Add", [names[4], bias]),
    ]
    results = [*names, node.output[0]]
    return [
        helper.make_node(op_type, operands, [result])
        for (op_type, operands), result in zip(steps, results, strict=True)
    ]


def _training_outputs(node: onnx.NodeProto, context: ModelUpgrade) -> Sequence[onnx.NodeProto]:
    """More than one result meant training."""
    if any(node.output[1:]):
        raise ModelError("it computes statistics, as for training")
    del node.output[1:]
    return [node]


RULES: Mapping[str, Mapping[int, Rule]] = {
    "BatchNormalization": {9: _batch_normalization, 14: _training_outputs},
    "Hardmax": {13: _over_one_axis},
    "LogSoftmax": {13: _over_one_axis},
    "Resize": {11: _resize, 13: _resize_for_nn},
    "RoiAlign": {16: _with_default("coordinate_transformation_mode", "output_half_pixel")},
    "Scan": {9: _refused("it has a batch")},
    "Scatter": {11: _renamed("ScatterElements")},
    "Softmax": {13: _over_one_axis},
    "Upsample": {10: _renamed("Resize")},
}
"""By operator, and the operator set that changed the meaning."""
