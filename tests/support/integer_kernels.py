"""What operators on quantized tensors compute, in whole numbers of 64 bits: the same anywhere.

onnxruntime's own kernels for these are no reference: see `compiler.onnxruntime_session`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

__all__ = ["pair_saturating", "run_integer_kernel"]

Array = npt.NDArray[Any]


def run_integer_kernel(model: bytes, feeds: Mapping[str, Array]) -> Array:
    """The result of the one node of `model`: QLinearConv, QLinearMatMul or QGemm."""
    graph = onnx.ModelProto.FromString(model).graph
    (node,) = graph.node
    known = {item.name: numpy_helper.to_array(item) for item in graph.initializer} | dict(feeds)
    operands = [known.get(name) for name in node.input]
    attrs = {item.name: helper.get_attribute_value(item) for item in node.attribute}
    return {"QLinearConv": _conv, "QLinearMatMul": _matmul, "QGemm": _gemm}[node.op_type](
        operands, attrs
    )


def _conv(operands: list[Array | None], attrs: Mapping[str, Any]) -> Array:
    """One group, no dilations. Source: ONNX QLinearConv-10."""
    x, sx, zx, w, sw, zw, sy, zy, *bias = operands
    assert x is not None and w is not None
    top, left, bottom, right = attrs.get("pads", [0, 0, 0, 0])
    strides = attrs.get("strides", [1, 1])
    values = np.pad(_centered(x, zx), [(0, 0), (0, 0), (top, bottom), (left, right)])
    windows = np.lib.stride_tricks.sliding_window_view(values, w.shape[2:], axis=(2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1]]
    sums = np.einsum("nchwij,kcij->nkhw", windows, _centered(w, _per(zw, 4)))
    if bias:
        sums = sums + _wide(_per(bias[0], 3))
    return _quantized(sums, _real(sx) * _real(_per(sw, 3)) / _real(sy), zy)


def _matmul(operands: list[Array | None], _attrs: Mapping[str, Any]) -> Array:
    """Scales per tensor, or per column of b. Source: ONNX QLinearMatMul-10."""
    a, sa, za, b, sb, zb, sy, zy = operands
    sums = _centered(a, za) @ _centered(b, zb)
    return _quantized(sums, _real(sa) * _real(sb) / _real(sy), zy)


def _gemm(operands: list[Array | None], attrs: Mapping[str, Any]) -> Array:
    """Without a scale of the result it stays real.

    Source: onnxruntime, docs/ContribOperators.md, com.microsoft.QGemm.
    """
    a, sa, za, b, sb, zb, *rest = operands
    weights = _centered(b, _per(zb, 2) if attrs.get("transB") else zb)
    sums = _centered(a, za) @ (weights.T if attrs.get("transB") else weights)
    if rest and rest[0] is not None:
        sums = sums + _wide(rest[0])
    scale = attrs.get("alpha", 1.0) * _real(sa) * _real(sb)
    if len(rest) < 2:
        return np.asarray(sums * scale, dtype=np.float32)
    return _quantized(sums, scale / _real(rest[1]), rest[2])


def pair_saturating(a: Array, b: Array) -> Array:
    """``a @ b`` as processors without VNNI sum it, a uint8, b int8: pairs of products in 16 bits.

    Source: Intel 64 and IA-32 Architectures Software Developer's Manual, VPMADDUBSW.
    """
    products = _wide(a)[:, :, None] * _wide(b)[None, :, :]
    pairs = products[:, 0::2] + products[:, 1::2]
    return np.asarray(np.clip(pairs, -(1 << 15), (1 << 15) - 1).sum(axis=1))


def _wide(values: Array | None) -> Array:
    return np.asarray(values, dtype=np.int64)


def _real(values: Array | None) -> Array:
    return np.asarray(values, dtype=np.float64)


def _per(values: Array | None, rank: int) -> Array:
    """One value per channel, along axis 0 of `rank` axes, or one for all."""
    return np.reshape(np.asarray(values), (-1, *[1] * (rank - 1)))


def _centered(values: Array | None, zero: Array | None) -> Array:
    return _wide(values) - _wide(zero)


def _quantized(sums: Array, scale: Array, zero: Array | None) -> Array:
    info = np.iinfo(np.asarray(zero).dtype)
    rounded = np.rint(sums * scale) + _wide(zero)
    return np.asarray(np.clip(rounded, info.min, info.max), dtype=info.dtype)
