"""Float convolution and dense layer, as imported from ONNX Conv, Gemm and MatMul."""

from collections.abc import Sequence

from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.onnx_form import OnnxForm, simple
from daedal.compiler.graph.ops.registry import (
    Array,
    Arrays,
    Attrs,
    Types,
    define,
    ints,
    require,
    require_float,
    whole,
)
from daedal.compiler.graph.ops.windows import convolve, output_extents
from daedal.compiler.graph.types import TensorType

__all__ = ["infer_conv2d_shape", "infer_dense_shape"]


def infer_conv2d_shape(x: TensorType, w: TensorType, attrs: Attrs) -> tuple[int, ...]:
    """Logical shape of a convolution of ``x`` (N, C, H, W) with ``w`` (O, C/groups, KH, KW)."""
    require(
        x.rank == 4 and w.rank == 4,
        f"a convolution must have a map (N, C, H, W) and weights (O, I, KH, KW), not {x} and {w}; "
        "only two-dimensional convolutions are supported",
    )
    groups = whole(attrs, "groups")
    n, channels, *extents = x.shape
    out_channels, per_group, *kernel = w.shape
    require(
        groups >= 1 and channels == per_group * groups and out_channels % groups == 0,
        f"channels must match the weights: {channels} channels in {groups} groups meet weights "
        f"{list(w.shape)}; repair the model",
    )
    oh, ow = output_extents(
        extents, kernel, ints(attrs, "strides"), ints(attrs, "pads"), ints(attrs, "dilations")
    )
    return (n, out_channels, oh, ow)


def infer_dense_shape(x: TensorType, out_features: int, in_features: int) -> tuple[int, ...]:
    """Logical shape of a dense layer over ``x`` (..., K)."""
    require(
        x.rank >= 2 and x.shape[-1] == in_features,
        f"a dense layer must have an input (..., {in_features}), not {list(x.shape)}; "
        "repair the model",
    )
    return (*x.shape[:-1], out_features)


def _check_bias(operands: Sequence[TensorType], length: int) -> None:
    if len(operands) == 3:
        require(
            operands[2].shape == (length,),
            f"the bias must have one value per output channel ({length}), "
            f"not shape {list(operands[2].shape)}; repair the model",
        )


def _infer_conv2d(operands: Types, attrs: Attrs) -> TensorType:
    require_float(operands)
    shape = infer_conv2d_shape(operands[0], operands[1], attrs)
    _check_bias(operands, shape[1])
    return TensorType(shape, "float32")


def _evaluate_conv2d(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Float convolution, weights (O, I/groups, KH, KW)."""
    result = convolve(
        arrays[0],
        arrays[1],
        ints(attrs, "strides"),
        ints(attrs, "pads"),
        ints(attrs, "dilations"),
        whole(attrs, "groups"),
        0.0,
    )
    return result + arrays[2].reshape(1, -1, 1, 1) if len(arrays) == 3 else result


def _infer_dense(operands: Types, attrs: Attrs) -> TensorType:
    require_float(operands)
    weights = operands[1]
    require(weights.rank == 2, f"dense weights must be a matrix, not {weights}; repair the model")
    out_features, in_features = weights.shape if whole(attrs, "transposed") else weights.shape[::-1]
    _check_bias(operands, out_features)
    return TensorType(infer_dense_shape(operands[0], out_features, in_features), "float32")


def _evaluate_dense(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Float dense layer, weights (O, K) where transposed is 1, else (K, O)."""
    weights = arrays[1].T if whole(attrs, "transposed") else arrays[1]
    result: Array = arrays[0] @ weights
    return result + arrays[2] if len(arrays) == 3 else result


_WINDOW = {"strides": "ints", "pads": "ints", "dilations": "ints", "groups": "int"}


def _write_dense(form: OnnxForm, node: Node) -> None:
    x, weights, *bias = node.inputs
    turned = bool(whole(node.attrs, "transposed"))
    if form.graph.types[x].rank == 2:
        form.write(node, "Gemm", transB=int(turned))
        return
    factor = form.add("Transpose", [weights], perm=[1, 0]) if turned else weights
    if not bias:
        form.write(node, "MatMul", [x, factor])
        return
    form.write(node, "Add", [form.add("MatMul", [x, factor]), *bias])


define(
    "conv2d",
    ("x", "w", "bias"),
    _WINDOW,
    _infer_conv2d,
    _evaluate_conv2d,
    num_optional=1,
    onnx=simple("Conv", strides="strides", pads="pads", dilations="dilations", groups="group"),
)

define(
    "dense",
    ("x", "w", "bias"),
    {"transposed": "int"},
    _infer_dense,
    _evaluate_dense,
    num_optional=1,
    onnx=_write_dense,
)
