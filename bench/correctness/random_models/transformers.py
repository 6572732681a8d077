"""Random transformers: the ways in which exporters write norms, heads, masks and gates."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.correctness.random_models.net import Array, Net, Value

__all__ = ["transformer"]

EPSILON = 1e-5
MASKED = (-10000.0, -1e9, float(np.finfo(np.float32).min))
"""What exporters add to scores that do not count."""


@dataclass(frozen=True)
class Shape:
    """Of the attention in a transformer: `groups` divides `heads`, whose keys and values these
    share; `earlier` rows of keys and values come from inputs."""

    batch: int
    tokens: int
    heads: int
    groups: int
    size: int
    earlier: int

    @property
    def width(self) -> int:
        return self.heads * self.size

    @property
    def keys(self) -> int:
        return self.earlier + self.tokens


def transformer(net: Net) -> None:
    """One or two blocks over an input [batch, tokens, width], and a head."""
    heads = net.one_of((1, 2, 2, 3, 4))
    shape = Shape(
        batch=net.one_of((1, 1, 1, 2)),
        tokens=net.one_of((1, 2, 3, 5, 8, 13, 16, 17)),
        heads=heads,
        groups=net.one_of([item for item in (1, 2, 3, 4) if heads % item == 0] + 2 * [heads]),
        size=net.one_of((2, 4, 6, 8, 12, 16)),
        earlier=net.one_of((0, 0, 0, 1, 7)),
    )
    x = net.input((shape.batch, shape.tokens, shape.width))
    if net.chance(0.3):  # positions
        x = net.one("Add", x, net.constant(net.normal((1, shape.tokens, shape.width), 0.3)))
    masked = _mask(net, shape)
    norm, act = net.one_of(NORMS), net.one_of(ACTIVATIONS)
    before = net.chance(0.7)
    for _ in range(net.integer(1, 2)):
        for layer in (lambda y: attention(net, y, shape, masked), lambda y: mlp(net, y, act)):
            y = layer(norm(net, x) if before else x)
            x = net.one("Add", *((x, y) if net.chance() else (y, x)))
            if not before:
                x = norm(net, x)
    _head(net, x, norm)


# Norms


def _affine(net: Net, x: Value, shift: bool) -> Value:
    width = x.shape[-1]
    x = net.one("Mul", x, net.constant(1 + net.normal((width,), 0.1)))
    return net.one("Add", x, net.constant(net.normal((width,), 0.1))) if shift else x


def _mean(net: Net, x: Value) -> Value:
    if net.opset >= 18:
        return net.one("ReduceMean", x, net.ints(-1))
    return net.one("ReduceMean", x, axes=[-1])


def _square(net: Net, x: Value) -> Value:
    return net.one("Pow", x, net.constant(np.float32(2))) if net.chance() else net.one("Mul", x, x)


def _over_root(net: Net, x: Value, variance: Value) -> Value:
    root = net.one("Sqrt", net.one("Add", variance, net.constant(np.float32(EPSILON))))
    if net.chance():
        return net.one("Div", x, root)
    return net.one("Mul", x, net.one("Reciprocal", root))


def layer_norm(net: Net, x: Value) -> Value:
    """As one operator."""
    width = x.shape[-1]
    scale = net.constant(1 + net.normal((width,), 0.1))
    bias = [net.constant(net.normal((width,), 0.1))] if net.chance(0.8) else []
    return net.one("LayerNormalization", x, scale, *bias, axis=-1, epsilon=EPSILON)


def written_norm(net: Net, x: Value) -> Value:
    """A layer norm in single operators."""
    centred = net.one("Sub", x, _mean(net, x))
    return _affine(net, _over_root(net, centred, _mean(net, _square(net, centred))), shift=True)


def rms_norm(net: Net, x: Value) -> Value:
    """Without a mean."""
    return _affine(net, _over_root(net, x, _mean(net, _square(net, x))), shift=False)


NORMS: tuple[Callable[[Net, Value], Value], ...] = (layer_norm, written_norm, rms_norm)


# Products


def dense(net: Net, x: Value, width: int, bias: bool | None = None) -> Value:
    """A product with weights: MatMul and Add, or Gemm over rows."""
    depth = x.shape[-1]
    bias = net.chance() if bias is None else bias
    if net.chance(0.2):
        rows = int(np.prod(x.shape[:-1]))
        flat = net.one("Reshape", x, net.ints(rows, depth))
        turned = net.chance()
        weight = net.weight((width, depth) if turned else (depth, width), depth)
        added = [net.constant(net.normal((width,), 0.1))] if bias else []
        y = net.one("Gemm", flat, weight, *added, transB=int(turned))
        return net.one("Reshape", y, net.ints(*x.shape[:-1], width))
    y = net.one("MatMul", x, net.weight((depth, width), depth))
    if not bias:
        return y
    added = net.constant(net.normal((width,), 0.1))
    return net.one("Add", *((added, y) if net.chance() else (y, added)))


# Attention


def _heads(net: Net, x: Value, heads: int) -> Value:
    """[batch, tokens, heads * size] as [batch, heads, tokens, size]."""
    batch, tokens, width = x.shape
    dims = (batch, tokens, heads, width // heads)
    shape = net.one_of(((0, 0, heads, -1), (0, -1, heads, width // heads), dims))
    return net.one("Transpose", net.one("Reshape", x, net.ints(*shape)), perm=[0, 2, 1, 3])


def _projections(net: Net, x: Value, shape: Shape) -> tuple[Value, Value, Value]:
    """Queries, keys and values: [batch, heads, tokens, size], the last two of the groups alone."""
    size, heads, groups = shape.size, shape.heads, shape.groups
    widths = [heads * size, groups * size, groups * size]
    if heads == groups and net.chance(0.3):
        # One product whose result has an axis for the three.
        y = dense(net, x, 3 * shape.width)
        y = net.one("Reshape", y, net.ints(shape.batch, shape.tokens, 3, heads, size))
        y = net.one("Transpose", y, perm=[2, 0, 3, 1, 4])
        found = [
            net.one("Gather", y, net.constant(np.array(number, np.int64)), axis=0)
            for number in range(3)
        ]
    elif net.chance(0.5):
        y = dense(net, x, sum(widths))
        if net.chance():
            parts = net.op("Split", [y, net.ints(*widths)], outputs=3, axis=2)
        else:
            ends = np.cumsum([0, *widths])
            parts = [
                net.one("Slice", y, net.ints(int(begin)), net.ints(int(end)), net.ints(2))
                for begin, end in itertools.pairwise(ends)
            ]
        found = [_heads(net, part, part.shape[-1] // size) for part in parts]
    else:
        bias = net.chance()
        found = [_heads(net, dense(net, x, width, bias), width // size) for width in widths]
    q, k, v = found
    return q, k, v


def _rotated(net: Net, x: Value, cos: Value, sin: Value) -> Value:
    """A rotary embedding."""
    half = x.shape[-1] // 2
    low = net.one("Slice", x, net.ints(0), net.ints(half), net.ints(-1))
    high = net.one("Slice", x, net.ints(half), net.ints(2 * half), net.ints(3))
    turned = net.op("Concat", [net.one("Neg", high), low], axis=-1)[0]
    return net.one("Add", net.one("Mul", x, cos), net.one("Mul", turned, sin))


def _repeated(net: Net, x: Value, heads: int) -> Value:
    """Keys or values of groups, for all heads."""
    batch, groups, rows, size = x.shape
    count = heads // groups
    if count == 1:
        return x
    if groups == 1 and net.chance():
        return x  # broadcast by the product
    wide = net.one("Unsqueeze", x, net.ints(2))
    if net.chance():
        wide = net.one("Expand", wide, net.ints(batch, groups, count, rows, size))
    else:
        wide = net.op("Concat", [wide] * count, axis=2)[0]
    return net.one("Reshape", wide, net.ints(batch, heads, rows, size))


def _mask(net: Net, shape: Shape) -> Callable[[Value], Value]:
    """What masks scores [batch, heads, tokens, keys]; each row keeps one key at least."""
    kind = net.one_of(("none", "none", "constant", "input", "where"))
    counts = np.arange(shape.keys) <= shape.earlier + np.arange(shape.tokens)[:, None]
    low = net.one_of(MASKED)
    if kind == "constant":
        added = net.constant(np.where(counts, 0, low).astype(np.float32)[None, None])
        return lambda scores: net.one("Add", scores, added)
    kept = np.ones((shape.batch, 1, 1, shape.keys), np.float32)
    kept[..., : net.integer(0, shape.keys - 1)] = 0
    if kind == "input":
        ones = net.constant(np.float32(1))
        left = net.one("Sub", ones, net.given(kept))
        added = net.one("Mul", left, net.constant(np.float32(low)))
        return lambda scores: net.one("Add", scores, added)
    if kind == "where":
        chosen = net.constant(counts[None, None])
        other = net.constant(np.float32(low))
        return lambda scores: net.one("Where", chosen, scores, other)
    return lambda scores: scores


def _softmax(net: Net, x: Value) -> Value:
    if net.chance(0.85):
        return net.one("Softmax", x, axis=net.one_of((-1, 3)))
    if net.opset >= 18:
        most = net.one("ReduceMax", x, net.ints(-1))
    else:
        most = net.one("ReduceMax", x, axes=[-1])
    powers = net.one("Exp", net.one("Sub", x, most))
    return net.one("Div", powers, net.one("ReduceSum", powers, net.ints(-1)))


def attention(net: Net, x: Value, shape: Shape, masked: Callable[[Value], Value]) -> Value:
    """Of all heads, and the product behind it."""
    q, k, v = _projections(net, x, shape)
    if shape.size % 2 == 0 and net.chance(0.25):
        angles = net.rng.uniform(-3, 3, (shape.tokens, shape.size // 2))
        both: Array = np.concatenate([angles, angles], axis=1).astype(np.float32)
        cos, sin = net.constant(np.cos(both)), net.constant(np.sin(both))
        q, k = _rotated(net, q, cos, sin), _rotated(net, k, cos, sin)
    if shape.earlier:
        rows = (shape.batch, shape.groups, shape.earlier, shape.size)
        k = net.op("Concat", [net.input(rows), k], axis=2)[0]
        v = net.op("Concat", [net.input(rows), v], axis=2)[0]
    k, v = _repeated(net, k, shape.heads), _repeated(net, v, shape.heads)
    root = np.float32(shape.size**0.5)
    scaled = net.one_of(("queries", "scores", "divided", "both"))
    if scaled == "queries":
        q = net.one("Mul", q, net.constant(1 / root))
    elif scaled == "both":
        q, k = (net.one("Mul", item, net.constant(root**-0.5)) for item in (q, k))
    if net.chance(0.15) and k.shape[1] == shape.heads:
        scores = net.one("Einsum", q, k, equation="bhqd,bhkd->bhqk")
    else:
        scores = net.one("MatMul", q, net.one("Transpose", k, perm=[0, 1, 3, 2]))
    if scaled == "scores":
        scores = net.one("Mul", scores, net.constant(1 / root))
    elif scaled == "divided":
        scores = net.one("Div", scores, net.constant(root))
    means = net.one("MatMul", _softmax(net, masked(scores)), v)
    y = net.one("Transpose", means, perm=[0, 2, 1, 3])
    y = net.one("Reshape", y, net.ints(*net.one_of(((0, 0, -1), (shape.batch, -1, shape.width)))))
    return dense(net, y, shape.width)


# The rest of a block


def _gelu(net: Net, x: Value) -> Value:
    if net.opset >= 20 and net.chance():
        return net.one("Gelu", x, approximate=net.one_of(("none", "tanh")))
    half, one = net.constant(np.float32(0.5)), net.constant(np.float32(1))
    if net.chance():
        inner = net.one("Erf", net.one("Div", x, net.constant(np.float32(2**0.5))))
    else:
        cube = net.one("Mul", net.one("Pow", x, net.constant(np.float32(3))),
                       net.constant(np.float32(0.044715)))  # fmt: skip
        root = net.constant(np.float32((2 / np.pi) ** 0.5))
        inner = net.one("Tanh", net.one("Mul", net.one("Add", x, cube), root))
    gate = net.one("Add", inner, one)
    if net.chance():
        return net.one("Mul", net.one("Mul", x, gate), half)
    return net.one("Mul", net.one("Mul", x, half), gate)


def _silu(net: Net, x: Value) -> Value:
    return net.one("Mul", x, net.one("Sigmoid", x))


def _relu(net: Net, x: Value) -> Value:
    return net.one("Relu", x)


ACTIVATIONS: tuple[Callable[[Net, Value], Value], ...] = (_gelu, _gelu, _silu, _relu)


def mlp(net: Net, x: Value, act: Callable[[Net, Value], Value]) -> Value:
    """Two products, or a gated first one."""
    width = x.shape[-1] * net.integer(1, 3)
    kind = net.one_of(("plain", "plain", "gated", "split"))
    if kind == "plain":
        hidden = act(net, dense(net, x, width))
    elif kind == "gated":
        hidden = net.one("Mul", act(net, dense(net, x, width)), dense(net, x, width))
    else:
        sizes = net.ints(width, width)
        one, other = net.op("Split", [dense(net, x, 2 * width), sizes], outputs=2, axis=2)
        hidden = net.one("Mul", act(net, one), other)
    return dense(net, hidden, x.shape[-1])


def _head(net: Net, x: Value, norm: Callable[[Net, Value], Value]) -> None:
    """What a model gives: all rows, the first or last one, or their mean."""
    if net.chance():
        x = norm(net, x)
    kind = net.one_of(("rows", "first", "last", "mean"))
    if kind == "rows":
        return
    if kind == "first":
        x = net.one("Gather", x, net.constant(np.array(0, np.int64)), axis=1)
    elif kind == "last":
        x = net.one("Slice", x, net.ints(-1), net.ints(2**31 - 1), net.ints(1))
    elif net.opset >= 18:
        x = net.one("ReduceMean", x, net.ints(1), keepdims=0)
    else:
        x = net.one("ReduceMean", x, axes=[1], keepdims=0)
    dense(net, x, net.integer(2, 20))
