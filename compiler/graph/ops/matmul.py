"""Products of two matrices that are both computed at run time: float as imported, and integer."""

import numpy as np

from daedal.compiler.graph.layout import ActivationLayout
from daedal.compiler.graph.ops.integer import (
    REQUANTIZE_ATTRS,
    check_activation,
    check_params,
    requantize,
    result_type,
)
from daedal.compiler.graph.ops.onnx_form import simple
from daedal.compiler.graph.ops.registry import (
    Array,
    Arrays,
    Attrs,
    Types,
    define,
    require,
    require_float,
    whole,
)
from daedal.compiler.graph.types import TensorType
from daedal.compiler.targets.names import ACCELERATOR

__all__ = ["Q_MATMUL", "check_maps", "correction", "products"]


def correction(zero_point: int) -> tuple[int, int]:
    """An int8 factor and a repeat count whose products subtract those with a zero point.

    Usually minus the zero point, once. For a zero point of -128, whose negative is not an int8, the
    factor is 64, added twice. (0, 0) if the zero point is 0.
    """
    if zero_point == 0:
        return 0, 0
    return (-zero_point, 1) if zero_point > -128 else (64, 2)


def _infer_matmul(operands: Types, attrs: Attrs) -> TensorType:
    require_float(operands)
    a, b = operands
    require(
        a.rank >= 2 and b.rank >= 2 and a.shape[-1] == b.shape[-2],
        f"operands of a matrix product must be matrices (..., M, K) and (..., K, N), not {a} and "
        f"{b}; repair the model",
    )
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        batch = None
    require(
        batch is not None,
        f"matrices of a product must have batch dimensions that broadcast, not {a} and {b}; "
        "repair the model",
    )
    return TensorType((*(batch or ()), a.shape[-2], b.shape[-1]), "float32")


def _evaluate_matmul(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Float product of two computed matrices, with batches."""
    return np.asarray(np.matmul(arrays[0], arrays[1]))


def check_maps(a: TensorType, b: TensorType, attrs: Attrs) -> tuple[int, ...]:
    """The shape of an integer product of two maps; raises ModelError for maps without one."""
    for operand in (a, b):
        check_activation(operand)
    require(
        a.rank == b.rank == 4
        and a.shape[0] % b.shape[0] == 0
        and a.shape[1] == b.shape[1]
        and a.layout == b.layout,
        "maps of an integer matrix product must have the same channels, and images of the second "
        f"one must serve equally many of the first one, not {a} and {b}; repair the model",
    )
    columns = whole(attrs, "columns")
    assert 1 <= columns <= b.shape[2] * b.shape[3], f"{columns} columns of {b}"
    return (a.shape[0], columns, *a.shape[2:])


def products(a: Array, b: Array, kind: TensorType, attrs: Attrs) -> Array:
    """``sum over k of (a[k, m] - za) * (b[k, n] - zb) - K * za * zb`` (N, columns, H, W) int64.

    Padding columns are among them; `kind` is the type of a.

    The constant term is left to the caller, who has it in a bias.
    """
    layout = kind.layout
    if isinstance(layout, ActivationLayout):
        a, b = (layout.unpack(array) for array in (a, b))
    left = a.astype(np.int64) - whole(attrs, "zero_point_a")
    right = b.astype(np.int64) - whole(attrs, "zero_point_b")
    # Float64 is exact: sums that fit the machine's accumulators have 31 bits.
    shared = np.repeat(right, len(left) // len(right), axis=0)
    sums = np.einsum("ikm,ikn->inm", *(_pixels(maps) for maps in (left, shared)), optimize=True)
    sums -= a.shape[1] * whole(attrs, "zero_point_a") * whole(attrs, "zero_point_b")
    # Padding columns are computed, too.
    block = layout.block if isinstance(layout, ActivationLayout) else 1
    columns = -(-whole(attrs, "columns") // block) * block
    return np.asarray(sums[:, :columns].astype(np.int64).reshape(len(sums), -1, *a.shape[2:]))


def _infer_q_matmul(operands: Types, attrs: Attrs) -> TensorType:
    a, b, _, params = operands
    shape = check_maps(a, b, attrs)
    rows = params.shape[0]
    assert rows in (1, _num_pixels(a)), f"{rows} rows of parameters for {a}"
    check_params(params, rows, a, channels=False)
    return result_type(shape, a, attrs)


def _evaluate_q_matmul(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Integer product of every pixel of a with the first pixels of b, a channel of the result each;
    an image of b serves as many consecutive images of a as there are for each; factor corrects
    for b's zero point; params is one row, or one for each pixel of a."""
    a, b, _, params = arrays
    acc = products(a, b, types[0], attrs)
    result = requantize(acc, _by_pixel(params, types[0]), attrs)
    return np.ascontiguousarray(types[0].layout.pack(result))


def _num_pixels(a: TensorType) -> int:
    """Of all images."""
    return a.shape[0] * a.shape[2] * a.shape[3]


def _by_pixel(params: Array, a: TensorType) -> Array:
    """The row of each pixel, (N, 1, H, W, 3), or of all, (3,). Lanes are alike."""
    rows = params.reshape(len(params), -1, 3)[:, 0]
    if len(rows) == 1:
        return np.asarray(rows[0])
    images, _, height, width = a.shape
    return rows.reshape(images, 1, height, width, 3)


def _pixels(maps: Array) -> Array:
    """(N, C, H, W) as float64 (N, C, H * W)."""
    return maps.reshape(*maps.shape[:2], -1).astype(np.float64)


define("matmul", ("a", "b"), {}, _infer_matmul, _evaluate_matmul, onnx=simple("MatMul"))
Q_MATMUL = define(
    "q_matmul",
    ("a", "b", "factor", "params"),
    {"zero_point_a": "int", "zero_point_b": "int", "columns": "int", **REQUANTIZE_ATTRS},
    _infer_q_matmul,
    _evaluate_q_matmul,
    targets=(ACCELERATOR,),
)
