"""Expansions of layers with weights: convolutions and matrix products."""

import numpy as np
import onnx

from daedal.compiler.frontend.node import Array
from daedal.compiler.frontend.qoperators.expansion import Expansion, optional

__all__ = ["expand_qgemm", "expand_qlinear_conv", "expand_qlinear_matmul"]


def expand_qlinear_conv(model: Expansion, node: onnx.NodeProto) -> bool:
    """QLinearConv-10: (x, sx, zx, w, sw, zw, sy, zy, bias), the bias at the scale sx * sw.

    In onnxruntime's domain the channels of x and of the result may come last; those of the weights
    do not.
    """
    x, sx, zx, w, sw, zw, sy, zy = node.input[:8]
    bias = optional(node, 8)
    scale = _product(model, sx, sw)
    if bias and scale is None:
        return False
    last = bool(model.typed(node).integer("channels_last", 0))
    rank = model.rank(w) if last else None
    if last and rank is None:
        return False
    image = model.real(x, sx, zx)
    if rank is not None:
        image = model.with_channels(image, rank, last=False)
    operands = [image, model.real(w, sw, zw, axis=0)]
    if bias and scale is not None:
        operands.append(model.real(bias, model.add_constant(f"{bias}.scale", scale), axis=0))
    (real,) = model.op(node, "Conv", operands, without=("channels_last",))
    if rank is not None:
        real = model.with_channels(real, rank, last=True)
    model.quantize(node.output[0], real, sy, zy, like=x)
    return True


def expand_qlinear_matmul(model: Expansion, node: onnx.NodeProto) -> bool:
    """QLinearMatMul-10, -21: (a, sa, za, b, sb, zb, sy, zy); rows of a and columns of b may have
    scales of their own."""
    a, sa, za, b, sb, zb, sy, zy = node.input[:8]
    operands = [model.real(a, sa, za, axis=-2), model.real(b, sb, zb, axis=-1)]
    (real,) = model.op(node, "MatMul", operands)
    model.quantize(node.output[0], real, sy, zy, like=a)
    return True


def expand_qgemm(model: Expansion, node: onnx.NodeProto) -> bool:
    """QGemm: (a, sa, za, b, sb, zb, c, sy, zy), c at the scale alpha * sa * sb. Without sy the
    result stays real.

    Source: onnxruntime, docs/ContribOperators.md, com.microsoft.QGemm.
    """
    a, sa, za, b, sb, zb = node.input[:6]
    bias, sy, zy = (optional(node, index) for index in (6, 7, 8))
    alpha = model.typed(node).real("alpha", 1.0)
    columns = 0 if model.typed(node).integer("transB", 0) else 1
    weight_scale, scale = model.constant(sb), _product(model, sa, sb)
    if weight_scale is None or scale is None:
        return False
    if alpha != 1.0:
        sb = model.add_constant(f"{sb}.alpha", (weight_scale * alpha).astype(np.float32))
    operands = [model.real(a, sa, za), model.real(b, sb, zb, axis=columns)]
    if bias:
        scale = (scale * alpha).astype(np.float32)
        operands.append(model.real(bias, model.add_constant(f"{bias}.scale", scale), axis=-1))
    if not sy:
        model.op(node, "Gemm", operands, without=("alpha",), outputs=node.output)
        return True
    (real,) = model.op(node, "Gemm", operands, without=("alpha",))
    model.quantize(node.output[0], real, sy, zy, like=a)
    return True


def _product(model: Expansion, first: str, second: str) -> Array | None:
    """The product of a constant scale and a constant of scales, or None where one is computed."""
    one, several = model.constant(first), model.constant(second)
    if one is None or several is None or one.size != 1:
        return None
    return np.asarray(one.reshape(()) * several, dtype=np.float32)
