"""Kernels of many shapes, as fusion makes them, for tests of schedules for GPUs."""

from collections.abc import Callable
from functools import partial

from daedal.compiler import te
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.tir.expr import Axis, Expr

__all__ = ["KERNELS"]


SUMS = {"float32": "float32", "float16": "float32", "int8": "int32"}
"""Dtypes of sums of products."""


def product(rows: int, columns: int, depth: int, dtype: str = "float32") -> Kernel:
    """A matrix product with a bias."""
    x = te.placeholder((rows, depth), dtype, "x0")
    w = te.placeholder((depth, columns), dtype, "x1")
    sums = SUMS[dtype]
    bias = te.placeholder((columns,), sums, "x2")
    k = te.reduce_axis(depth, "k")
    shape = (rows, columns)
    r = te.compute(shape, lambda i, j: te.sum(x[i, k].astype(sums) * w[k, j].astype(sums), k), "r")
    y = te.compute(shape, lambda i, j: r[i, j] + bias[j], "y")
    return Kernel((x, w, bias), y, r)


def batched(batch: int, rows: int, columns: int, depth: int, dtype: str = "float32") -> Kernel:
    """Products of matrices, the second one transposed."""
    x = te.placeholder((batch, rows, depth), dtype, "x0")
    w = te.placeholder((batch, columns, depth), dtype, "x1")
    sums = SUMS[dtype]
    k = te.reduce_axis(depth, "k")
    shape = (batch, rows, columns)

    def value(b: Axis, i: Axis, j: Axis) -> Expr:
        return te.sum(x[b, i, k].astype(sums) * w[b, j, k].astype(sums), k)

    r = te.compute(shape, value, "r")
    half = te.compute(shape, lambda *i: r[i].astype("float32") * 0.5, "y")
    return Kernel((x, w), half, r)


def convolution(
    channels: int, size: int, maps: int, kernel: int = 3, stride: int = 1, dtype: str = "float32"
) -> Kernel:
    """A convolution of a square image with zeros around it, and Relu."""
    x = te.placeholder((channels, size, size), dtype, "x0")
    w = te.placeholder((maps, channels, kernel, kernel), dtype, "x1")
    sums = SUMS[dtype]
    c, a, b = (
        te.reduce_axis(n, name) for n, name in ((channels, "c"), (kernel, "a"), (kernel, "b"))
    )
    pad = kernel // 2
    side = (size + 2 * pad - kernel) // stride + 1

    def value(o: Axis, i: Axis, j: Axis) -> Expr:
        element = x.padded(0)[c, i * stride + a - pad, j * stride + b - pad]
        return te.sum(element.astype(sums) * w[o, c, a, b].astype(sums), (c, a, b))

    shape = (maps, side, side)
    r = te.compute(shape, value, "r")
    return Kernel((x, w), te.compute(shape, lambda *i: te.maximum(r[i], 0), "y"), r)


def depthwise(channels: int, size: int) -> Kernel:
    """Each channel with a kernel of its own: no product of rows and columns."""
    x = te.placeholder((channels, size, size), "float32", "x0")
    w = te.placeholder((channels, 3, 3), "float32", "x1")
    a, b = te.reduce_axis(3, "a"), te.reduce_axis(3, "b")
    shape = (channels, size - 2, size - 2)
    r = te.compute(shape, lambda c, i, j: te.sum(x[c, i + a, j + b] * w[c, a, b], (a, b)), "r")
    return Kernel((x, w), te.compute(shape, lambda *i: r[i], "y"), r)


def reduced(rows: int, columns: int, op: str) -> Kernel:
    """Rows reduced to one element each."""
    x = te.placeholder((rows, columns), "float32", "x0")
    k = te.reduce_axis(columns, "k")
    function = getattr(te, op)
    r = te.compute((rows,), lambda i: function(x[i, k], k), "r")
    return Kernel((x,), te.compute((rows,), lambda i: r[i] + 1.0, "y"), r)


def maxima(maps: int, size: int) -> Kernel:
    """The largest element of each map."""
    x = te.placeholder((maps, size, size), "int8", "x0")
    a, b = te.reduce_axis(size, "a"), te.reduce_axis(size, "b")
    r = te.compute((maps,), lambda c: te.max(x[c, a, b], (a, b)), "r")
    return Kernel((x,), te.compute((maps,), lambda i: r[i].astype("int32") + 1, "y"), r)


def elementwise(*shape: int) -> Kernel:
    """A sum with a function in it."""
    x = te.placeholder(shape, "float32", "x0")
    return Kernel((x,), te.compute(shape, lambda *i: te.maximum(x[i], 0.0) * 2.0 + 1.0, "y"))


def transposed(rows: int, columns: int) -> Kernel:
    """The other order of two axes."""
    x = te.placeholder((rows, columns), "float32", "x0")
    return Kernel((x,), te.compute((columns, rows), lambda i, j: x[j, i], "y"))


KERNELS: dict[str, Callable[[], Kernel]] = {
    "product": lambda: product(64, 64, 32),
    "odd product": lambda: product(35, 18, 21),
    "few rows": lambda: product(5, 35, 20),
    "a row": lambda: product(1, 20, 15),
    "product of 8 bits": lambda: product(17, 10, 20, "int8"),
    **{
        f"{name} of {bits} bits in tensor cores": partial(function, *shape, dtype=dtype)
        for bits, dtype in ((8, "int8"), (16, "float16"))
        for name, function, shape in (
            ("product", product, (64, 64, 64)),
            ("odd product", product, (83, 70, 45)),
            ("low product", product, (9, 70, 40)),
            ("narrow product", product, (70, 8, 33)),
            ("small product", product, (10, 8, 17)),
            ("deep product", product, (40, 24, 168)),
            ("batched", batched, (2, 20, 19, 34)),
            ("deep batched", batched, (2, 18, 20, 148)),
            ("convolution", convolution, (18, 9, 10)),
        )
    },
    "batched": lambda: batched(3, 7, 9, 10),
    "convolution": lambda: convolution(4, 6, 8),
    "odd convolution": lambda: convolution(3, 7, 5, stride=2),
    "deep convolution": lambda: convolution(20, 5, 9),
    "pointwise": lambda: convolution(6, 5, 9, kernel=1),
    "depthwise": lambda: depthwise(3, 6),
    "row sums": lambda: reduced(3, 70, "sum"),
    "row maxima": lambda: reduced(3, 33, "max"),
    "all elements": lambda: reduced(1, 1000, "sum"),
    "maxima of maps": lambda: maxima(3, 11),
    "an element": lambda: elementwise(1),
    "an element of six axes": lambda: elementwise(1, 1, 1, 1, 1, 1),
    "elementwise": lambda: elementwise(7, 111),
    "transposed": lambda: transposed(33, 50),
}
"""By name."""
