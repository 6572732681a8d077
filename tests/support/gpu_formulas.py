"""Kernels of many shapes, as fusion makes them, for tests of schedules for GPUs."""

from collections.abc import Callable
from functools import partial

from daedal.compiler import te
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.tir.expr import Axis, Expr

__all__ = ["KERNELS"]


SUMS = {"float32": "float32", "float16": "float32", "bfloat16": "float32", "int8": "int32"}
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


def blocked(size: int, channels: int, blocks: int) -> Kernel:
    """A convolution of every second pixel of a map that lies within its pads, whose channels are
    last, as processors have them: results are blocks of 16 channels."""
    side = 2 * size + 1
    x = te.placeholder((side, side, channels), "int8", "x0")
    w = te.placeholder((blocks, 3, 3, channels, 16), "int8", "x1")
    a, b, c = (te.reduce_axis(n, name) for n, name in ((3, "a"), (3, "b"), (channels, "c")))
    shape = (size, size, blocks, 16)

    def value(i: Axis, j: Axis, block: Axis, lane: Axis) -> Expr:
        element = x[i * 2 + a, j * 2 + b, c].astype("int32")
        return te.sum(element * w[block, a, b, c, lane].astype("int32"), (a, b, c))

    r = te.compute(shape, value, "r")
    return Kernel((x, w), te.compute(shape, lambda *i: r[i] + 1, "y"), r)


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


def attention(
    rows: int,
    columns: int,
    depth: int,
    width: int,
    *,
    batch: tuple[int, ...] = (),
    scale: float = 2.0**-12,
    mask: float = 0.0,
    transposed: bool = False,
    dtype: str = "float32",
    result: str = "",
) -> Kernel:
    """Half of the means of values by the softmax of scores, which are products times `scale`, and
    `mask` times an operand with a row for each of the first axis of `batch`. Sums are float32."""
    q = te.placeholder((*batch, rows, depth), dtype, "x0")
    k = te.placeholder(
        (*batch, *((depth, columns) if transposed else (columns, depth))), dtype, "x1"
    )
    v = te.placeholder((*batch, columns, width), dtype, "x2")
    hidden = te.placeholder((*batch[:1], columns), dtype, "x3")
    sums = "float32"
    d, last = te.reduce_axis(depth, "d"), te.reduce_axis(columns, "j")
    shape = (*batch, rows, columns)

    def product(*i: Axis) -> Expr:
        *outer, row, column = i
        key = k[(*outer, d, column)] if transposed else k[(*outer, column, d)]
        return te.sum(q[(*outer, row, d)].astype(sums) * key.astype(sums), d)

    def score(*i: Axis) -> Expr:
        value = rounded[i]
        return value + hidden[(*i[: len(batch[:1])], i[-1])] * mask if mask else value

    def reduced(function: Callable[..., Expr], source: te.Tensor, name: str) -> te.Tensor:
        axis = te.reduce_axis(columns, "k")
        one = (*batch, rows, 1)
        return te.compute(one, lambda *i: function(source[(*i[:-1], axis)], axis), name)

    products = te.compute(shape, product, "r0")
    rounded = products
    if dtype == "bfloat16":
        rounded = te.compute(shape, lambda *i: products[i] * scale, "rounded")
    elif dtype != sums or scale != 1:
        rounded = te.compute(shape, lambda *i: (products[i] * scale).astype(dtype), "rounded")
    scores = te.compute(shape, score, "r1") if mask else rounded
    top = reduced(te.max, scores, "r2")

    def above(*i: Axis) -> Expr:
        return te.exp(scores[i].astype(sums) - top[(*i[:-1], 0)].astype(sums))

    def share(*i: Axis) -> Expr:
        return (power[i] / total[(*i[:-1], 0)]).astype(dtype)

    def mean(*i: Axis) -> Expr:
        value = v[(*i[:-2], last, i[-1])].astype(sums)
        return te.sum(weights[(*i[:-1], last)].astype(sums) * value, last)

    power = te.compute(shape, above, "r3")
    total = reduced(te.sum, power, "r4")
    weights = te.compute(shape, share, "r5")
    r = te.compute((*batch, rows, width), mean, "r")
    y = te.compute(r.shape, lambda *i: (r[i] * 0.5).astype(result or dtype), "y")
    inputs = (q, k, v, hidden) if mask else (q, k, v)
    stages = tuple(dict.fromkeys((products, rounded, scores, top, power, total, weights)))
    return Kernel(inputs, y, r, stages=stages, scores=scores)


def softmax(rows: int, columns: int, scale: float = 2.0**-4) -> Kernel:
    """Twice the softmax of rows."""
    x = te.placeholder((rows, columns), "float32", "x0")
    k = te.reduce_axis(columns, "k")
    one = (rows, 1)
    top = te.compute(one, lambda i, _: te.max(x[i, k] * scale, k), "r0")
    power = te.compute(x.shape, lambda i, j: te.exp(x[i, j] * scale - top[i, 0]), "r1")
    total = te.compute(one, lambda i, _: te.sum(power[i, k], k), "r2")
    y = te.compute(x.shape, lambda i, j: power[i, j] / total[i, 0] * 2.0, "y")
    return Kernel((x,), y, stages=(top, power, total))


def norm(images: int, rows: int, columns: int) -> Kernel:
    """A layer norm of a sum of two rows, the second one of halves."""
    shape, one = (images, rows, columns), (images, rows, 1)
    x, w = te.placeholder(shape, "float32", "x0"), te.placeholder(shape, "float16", "x1")
    gain = te.placeholder((columns,), "float32", "x2")
    k = te.reduce_axis(columns, "k")
    row = te.compute(shape, lambda *i: x[i] + w[i].astype("float32"), "r0")
    total = te.compute(one, lambda a, b, _: te.sum(row[a, b, k], k), "r1")
    mean = te.compute(one, lambda *i: total[i] / columns, "r2")

    def square(a: Axis, b: Axis, c: Axis) -> Expr:
        apart = row[a, b, k] - mean[a, b, c]
        return te.sum(apart * apart, k)

    squares = te.compute(one, square, "r3")

    def result(a: Axis, b: Axis, c: Axis) -> Expr:
        scale = te.rsqrt(squares[a, b, 0] / columns + 1e-5)
        return (row[a, b, c] - mean[a, b, 0]) * scale * gain[c]

    y = te.compute(shape, result, "y")
    return Kernel((x, w, gain), y, stages=(row, total, mean, squares))


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
    "product of bfloat16 in tensor cores": lambda: product(35, 24, 45, "bfloat16"),
    "convolution of bfloat16 in tensor cores": lambda: convolution(18, 9, 10, dtype="bfloat16"),
    "blocked convolution": lambda: blocked(8, 16, 2),
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
    "softmax of rows": lambda: softmax(5, 70),
    "softmax of short rows": lambda: softmax(19, 10),
    "softmax of a long row": lambda: softmax(1, 600),
    "norm of rows": lambda: norm(2, 3, 64),
    "norm of odd rows": lambda: norm(1, 5, 301),
    "elementwise": lambda: elementwise(7, 111),
    "transposed": lambda: transposed(33, 50),
    "attention": lambda: attention(16, 32, 8, 16),
    "odd attention": lambda: attention(21, 70, 5, 6),
    "masked attention": lambda: attention(18, 19, 16, 33, batch=(2,), mask=2.0**-5),
    "attention of heads": lambda: attention(
        6, 40, 20, 32, batch=(2, 2), mask=2.0**-5, scale=1.0, transposed=True
    ),
    "attention of long values": lambda: attention(5, 18, 8, 130),
    "attention of one query": lambda: attention(1, 150, 8, 16, batch=(3,)),
    "attention of two queries": lambda: attention(2, 70, 5, 6, batch=(2,), mask=2.0**-5),
    "attention of three long queries": lambda: attention(3, 17, 140, 150),
    "attention of one query in 16 bits": lambda: attention(1, 130, 16, 24, dtype="float16"),
    "attention of 16 bits": lambda: attention(32, 40, 16, 16, dtype="float16"),
    "attention of 16 bits in bfloat16": lambda: attention(
        21, 24, 16, 8, dtype="bfloat16", result="float32"
    ),
    "attention of 16 bits with long values": lambda: attention(5, 34, 8, 136, dtype="float16"),
    "odd attention of 16 bits": lambda: attention(21, 130, 5, 6, dtype="float16"),
    "masked attention of 16 bits": lambda: attention(
        18, 39, 16, 33, batch=(2,), mask=2.0**-5, dtype="float16"
    ),
}
"""By name."""
