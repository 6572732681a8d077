"""Expansions of operators without weights whose operands and results have scales of their own."""

from collections.abc import Sequence

import onnx

from daedal.compiler.frontend.qoperators.expansion import Expansion, optional

__all__ = [
    "expand_binary",
    "expand_concat",
    "expand_pool",
    "expand_softmax",
    "expand_unary",
    "expand_where",
]


def expand_binary(model: Expansion, node: onnx.NodeProto) -> bool:
    """QLinearAdd, QLinearMul: (a, sa, za, b, sb, zb, sy, zy)."""
    a, sa, za, b, sb, zb, sy = node.input[:7]
    operands = [model.real(a, sa, za), model.real(b, sb, zb)]
    (real,) = model.op(node, _plain(node), operands)
    model.quantize(node.output[0], real, sy, optional(node, 7), like=a)
    return True


def expand_unary(model: Expansion, node: onnx.NodeProto) -> bool:
    """QLinearLeakyRelu, QLinearSigmoid: (x, sx, zx, sy, zy), the same attributes."""
    return _expand_unary(model, node)


def expand_pool(model: Expansion, node: onnx.NodeProto) -> bool:
    """QLinearAveragePool, QLinearGlobalAveragePool, whose channels may come last."""
    x, sx, zx, sy = node.input[:4]
    last = bool(model.typed(node).integer("channels_last", 0))
    real = model.real(x, sx, zx)
    rank = model.rank(real) if last else None
    if last and rank is None:
        return False
    if rank is not None:
        real = model.with_channels(real, rank, last=False)
    (real,) = model.op(node, _plain(node), [real], without=("channels_last",))
    if rank is not None:
        real = model.with_channels(real, rank, last=True)
    model.quantize(node.output[0], real, sy, optional(node, 4), like=x)
    return True


def expand_softmax(model: Expansion, node: onnx.NodeProto) -> bool:
    """QLinearSoftmax, which means Softmax of the opset in its attribute.

    Source: ONNX Softmax-13, which normalizes one axis; before, all from the axis on.
    """
    if (model.typed(node).integer("opset", 1) >= 13) != (model.opset >= 13):
        return False
    return _expand_unary(model, node, without=("opset",))


def expand_concat(model: Expansion, node: onnx.NodeProto) -> bool:
    """QLinearConcat: (sy, zy), then (x, sx, zx) of each operand."""
    sy, zy, *rest = node.input
    if not rest or len(rest) % 3:
        return False
    triples = [rest[index : index + 3] for index in range(0, len(rest), 3)]
    operands = [model.real(*triple) for triple in triples]
    (real,) = model.op(node, "Concat", operands)
    model.quantize(node.output[0], real, sy, zy, like=rest[0])
    return True


def expand_where(model: Expansion, node: onnx.NodeProto) -> bool:
    """QLinearWhere: (condition, x, sx, zx, y, sy, zy, sz, zz)."""
    condition, x, sx, zx, y, sy, zy, sz = node.input[:8]
    operands = [condition, model.real(x, sx, zx), model.real(y, sy, zy)]
    (real,) = model.op(node, "Where", operands)
    model.quantize(node.output[0], real, sz, optional(node, 8), like=x)
    return True


def _expand_unary(model: Expansion, node: onnx.NodeProto, without: Sequence[str] = ()) -> bool:
    """(x, sx, zx, sy, zy) to the operator on reals, with the attributes but those in `without`."""
    x, sx, zx, sy = node.input[:4]
    (real,) = model.op(node, _plain(node), [model.real(x, sx, zx)], without=without)
    model.quantize(node.output[0], real, sy, optional(node, 4), like=x)
    return True


def _plain(node: onnx.NodeProto) -> str:
    """The operator on reals: the name without QLinear."""
    return str(node.op_type).removeprefix("QLinear")
