"""Float elementwise operators and softmax."""

import numpy as np

from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.onnx_form import OnnxForm, simple
from daedal.compiler.graph.ops.registry import (
    Array,
    Arrays,
    Attrs,
    Types,
    define,
    ints,
    number,
    require,
    require_float,
)
from daedal.compiler.graph.types import TensorType

__all__: list[str] = []


def _infer_broadcast(operands: Types, attrs: Attrs) -> TensorType:
    require_float(operands)
    a, b = operands
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        shape = ()
        require(
            False,
            f"operands must have shapes that broadcast, not {list(a.shape)} and "
            f"{list(b.shape)}; repair the model",
        )
    return TensorType(tuple(shape), a.dtype)


def _infer_same(operands: Types, attrs: Attrs) -> TensorType:
    require_float(operands)
    return operands[0]


def _infer_softmax(operands: Types, attrs: Attrs) -> TensorType:
    require_float(operands)
    rank = operands[0].rank
    require(
        all(0 <= axis < rank for axis in ints(attrs, "axes")),
        f"softmax axes must lie in a tensor of {rank} dimensions, not {list(ints(attrs, 'axes'))}",
    )
    return operands[0]


def _evaluate_add(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """a + b, broadcast."""
    return np.add(arrays[0], arrays[1])


def _evaluate_sub(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """a - b, broadcast."""
    return np.subtract(arrays[0], arrays[1])


def _evaluate_mul(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """a * b, broadcast."""
    return np.multiply(arrays[0], arrays[1])


def _evaluate_maximum(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """The larger of a and b, broadcast."""
    return np.maximum(arrays[0], arrays[1])


def _evaluate_relu(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """max(x, 0)."""
    return np.asarray(np.maximum(arrays[0], np.float32(0)))


def _evaluate_leaky_relu(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """x where it is positive, else slope * x."""
    x, slope = arrays[0], np.float32(number(attrs, "slope"))
    return np.where(x < 0, x * slope, x)


def _evaluate_clip(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """min(max(x, low), high); a missing bound is -inf or inf."""
    low, high = number(attrs, "low"), number(attrs, "high")
    result: Array = np.minimum(np.maximum(arrays[0], np.float32(low)), np.float32(high))
    return result


def _log_softmax(x: Array, axes: tuple[int, ...]) -> Array:
    """Logarithm of softmax in float64, shifted by the maximum so that nothing overflows."""
    values = x.astype(np.float64)
    shifted = values - values.max(axis=axes, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=axes, keepdims=True))
    return result


def _evaluate_softmax(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Softmax over all of `axes` together."""
    return np.asarray(np.exp(_log_softmax(arrays[0], ints(attrs, "axes"))), dtype=np.float32)


def _evaluate_log_softmax(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Logarithm of softmax over all of `axes` together."""
    return _log_softmax(arrays[0], ints(attrs, "axes")).astype(np.float32)


def _write_clip(form: OnnxForm, node: Node) -> None:
    bounds = [form.constant(node.attrs[name], "float32") for name in ("low", "high")]
    form.write(node, "Clip", [*node.inputs, *bounds])


def _write_softmax(form: OnnxForm, node: Node) -> None:
    """The axes are the last ones: those that older opsets joined."""
    op_type = "LogSoftmax" if node.op == "log_softmax" else "Softmax"
    kind, axes = form.graph.types[node.output], ints(node.attrs, "axes")
    if len(axes) == 1:
        form.write(node, op_type, axis=axes[0])
        return
    rest = kind.shape[: kind.rank - len(axes)]
    assert axes == tuple(range(len(rest), kind.rank)), f"{node} has axes {axes}"
    flat = form.constant([*rest, -1], "int64")
    joined = form.add("Reshape", [*node.inputs, flat])
    done = form.add(op_type, [joined], axis=len(rest))
    form.write(node, "Reshape", [done, form.constant(kind.shape, "int64")])


define("add", ("a", "b"), {}, _infer_broadcast, _evaluate_add, elementwise=True, onnx=simple("Add"))
define("sub", ("a", "b"), {}, _infer_broadcast, _evaluate_sub, elementwise=True, onnx=simple("Sub"))
define("mul", ("a", "b"), {}, _infer_broadcast, _evaluate_mul, elementwise=True, onnx=simple("Mul"))
define(
    "maximum",
    ("a", "b"),
    {},
    _infer_broadcast,
    _evaluate_maximum,
    elementwise=True,
    onnx=simple("Max"),
)
define("relu", ("x",), {}, _infer_same, _evaluate_relu, elementwise=True, onnx=simple("Relu"))
define(
    "leaky_relu",
    ("x",),
    {"slope": "float"},
    _infer_same,
    _evaluate_leaky_relu,
    elementwise=True,
    onnx=simple("LeakyRelu", slope="alpha"),
)
define(
    "clip",
    ("x",),
    {"low": "float", "high": "float"},
    _infer_same,
    _evaluate_clip,
    elementwise=True,
    onnx=_write_clip,
)
define("softmax", ("x",), {"axes": "ints"}, _infer_softmax, _evaluate_softmax, onnx=_write_softmax)
define(
    "log_softmax",
    ("x",),
    {"axes": "ints"},
    _infer_softmax,
    _evaluate_log_softmax,
    onnx=_write_softmax,
)
