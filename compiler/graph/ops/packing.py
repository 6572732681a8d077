"""Conversion between the plain and the blocked layout of activations; runs on the host."""

from dataclasses import fields

import numpy as np

from daedal.compiler.graph.layout import PLAIN, ActivationLayout, PixelLayout
from daedal.compiler.graph.ops.integer import dtype_in, is_wide
from daedal.compiler.graph.ops.registry import Array, Arrays, Attrs, Types, define, require, whole
from daedal.compiler.graph.stream_layout import RowStreamLayout
from daedal.compiler.graph.types import TensorType
from daedal.isa.row_stream import RowStream

__all__: list[str] = []


def _infer_pack(operands: Types, attrs: Attrs) -> TensorType:
    x = operands[0]
    require(
        x.rank == 4 and x.is_plain,
        f"only a plain map (N, C, H, W) can be packed into blocks, not {x}; "
        "reshape it to four dimensions",
    )
    layout = ActivationLayout(whole(attrs, "batch"), whole(attrs, "block"))
    return TensorType(x.shape, dtype_in(layout, wide=True) if is_wide(x) else x.dtype, layout)


def _infer_unpack(operands: Types, attrs: Attrs) -> TensorType:
    x = operands[0]
    assert isinstance(x.layout, ActivationLayout), f"{x} is not blocked"
    return TensorType(x.shape, dtype_in(PLAIN, wide=True) if is_wide(x) else x.dtype)


def _evaluate_pack(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """(N, C, H, W) into blocks of batch x block; lanes beyond N and C are zero."""
    layout = ActivationLayout(whole(attrs, "batch"), whole(attrs, "block"))
    return layout.pack(arrays[0])


def _infer_pack_pixels(operands: Types, attrs: Attrs) -> TensorType:
    x = operands[0]
    assert x.rank == 4 and x.is_plain and x.shape[3] == 1, f"{x} has no single column"
    return x.with_layout(PixelLayout(whole(attrs, "batch"), whole(attrs, "block")))


def _evaluate_pack_pixels(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """(N, C, P, 1) into blocks of batch pixels x block; lanes beyond P and C are zero."""
    return PixelLayout(whole(attrs, "batch"), whole(attrs, "block")).pack(arrays[0])


def _stream_layout(attrs: Attrs) -> RowStreamLayout:
    return RowStreamLayout(RowStream(**{name: whole(attrs, name) for name in _STREAM_ATTRS}))


def _infer_pack_stream(operands: Types, attrs: Attrs) -> TensorType:
    x = operands[0]
    assert x.rank == 4 and x.is_plain and x.shape[1] <= whole(attrs, "channels"), f"{x}"
    return x.with_layout(_stream_layout(attrs))


def _evaluate_pack_stream(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """(N, C, H, W) into streams of pixels without gaps; all else is pad_value."""
    return _stream_layout(attrs).pack(arrays[0])


def _evaluate_unpack(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Blocks into (N, C, H, W)."""
    n, c, h, _ = types[0].shape
    return np.ascontiguousarray(types[0].layout.unpack(arrays[0])[:n, :c, :h])


_STREAM_ATTRS = tuple(field.name for field in fields(RowStream))

define("pack", ("x",), {"batch": "int", "block": "int"}, _infer_pack, _evaluate_pack)
define(
    "pack_pixels",
    ("x",),
    {"batch": "int", "block": "int"},
    _infer_pack_pixels,
    _evaluate_pack_pixels,
)
define(
    "pack_stream",
    ("x",),
    dict.fromkeys(_STREAM_ATTRS, "int"),
    _infer_pack_stream,
    _evaluate_pack_stream,
)
define("unpack", ("x",), {}, _infer_unpack, _evaluate_unpack)
