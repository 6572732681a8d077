"""Rewrites operators in the form that the quantizer knows, exactly or with one more rounding."""

import numpy as np

from daedal.compiler.graph.dataflow import sole_producer
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import number
from daedal.compiler.graph.rewrite import Rewriter, rewrite, walk
from daedal.compiler.quantization.operators import kind_of
from daedal.compiler.quantization.rewrites.patterns import both_orders, constant_of, number_of

__all__ = ["flatten_rows", "normalize"]

_TOKENS_RANK = 3
"""Of (batch, tokens, channels): factors per channel would be on the last axis, or on the second,
and the compiler computes a HardSwish as it is."""

_MATRIX_RANK = 2


def normalize(graph: Graph) -> Graph:
    """Replace operators by simpler ones.

    Before -> after; t is ``clip(add(mul(x, [1/6 ...]), [0.5 ...])) low=0.0 high=1.0``::

        sub(x, c)                                       ->  add(x, -c)
        onnx(x) op_type=HardSwish                       ->  mul(x, t)       of maps
        clip(add(mul(x, 1/6), 0.5)) low=0.0 high=1.0    ->  t
        onnx(x, a) op_type=PRelu                        ->  maximum(x, mul(x, a))   a up to 1
        onnx(x, 0.25) op_type=PRelu                     ->  leaky_relu(x) slope=0.25

    The numbers of a gate are repeated for each channel, so that one depthwise layer does both.
    """
    return rewrite(graph, {"sub": _negate, "onnx": _simplify, "clip": _spread})


def _negate(graph: Rewriter, node: Node) -> None:
    x, other = node.inputs
    if graph.is_constant(other) and not graph.is_constant(x):
        negated = graph.fresh_constant(f"{other}.negated", -graph.constant(other))
        graph.replace(node, [x, negated], op="add")


def _simplify(graph: Rewriter, node: Node) -> None:
    kind = kind_of(node)
    if kind == "PRelu":
        _maximum(graph, node)
    elif kind == "HardSwish" and graph.types[node.output].rank != _TOKENS_RANK:
        (x,) = node.inputs
        gate = _line(graph, x, 1 / 6, 0.5, f"{node.output}.gate")
        graph.add("mul", [x, gate], output=node.output, name=node.name)


def _maximum(graph: Rewriter, node: Node) -> None:
    """A PRelu whose slopes are constants of at most 1."""
    x, slopes = node.inputs
    values = constant_of(graph, slopes)
    if values is None or not (values <= 1).all():
        return
    if (values == values.flat[0]).all():
        slope = {"slope": float(values.flat[0])}
        graph.add("leaky_relu", [x], slope, output=node.output, name=node.name)
        return
    scaled = graph.add_fresh("mul", [x, slopes], base=f"{node.output}.scaled")
    graph.add("maximum", [x, scaled], output=node.output, name=node.name)


def _spread(graph: Rewriter, node: Node) -> None:
    """A line of two single numbers, between 0 and 1."""
    if (number(node.attrs, "low"), number(node.attrs, "high")) != (0.0, 1.0):
        return
    total = sole_producer(graph, node.inputs[0], ("add",))
    for scaled, offset in () if total is None else both_orders(total):
        product = sole_producer(graph, scaled, ("mul",))
        for x, slope in () if product is None else both_orders(product):
            factors = number_of(graph, slope), number_of(graph, offset)
            if factors[0] is None or factors[1] is None:
                continue
            is_spread = graph.types[slope].rank >= graph.types[x].rank - 1
            if not is_spread and graph.types[x] == graph.types[node.output]:
                _line(graph, x, factors[0], factors[1], node.output, node.name)
                return


def _line(graph: Rewriter, x: str, slope: float, offset: float, output: str, name: str = "") -> str:
    """``clip(slope * x + offset)`` between 0 and 1, with a number for each channel of a map."""
    shape = graph.types[x].shape
    channels = (shape[1], *(1,) * (len(shape) - 2)) if len(shape) > 2 else (1,)
    line = x
    for op, value in (("mul", slope), ("add", offset)):
        base = f"{output}.{op}"
        values = graph.fresh_constant(f"{base}.numbers", np.full(channels, value, np.float32))
        line = graph.add_fresh(op, [line, values], base=base)
    bounds = {"low": 0.0, "high": 1.0}
    return graph.add("clip", [line], bounds, output=output, name=name)


def flatten_rows(graph: Graph) -> Graph:
    """Give dense layers matrices.

    Before::

        y = dense(x, w, b) transposed=0     # x: float32[1,50,64]

    After::

        t = reshape(x) shape=50,64
        u = dense(t, w, b) transposed=0
        y = reshape(u) shape=1,50,192
    """
    return walk(graph, {"dense": _flatten})


def _flatten(graph: Rewriter, node: Node) -> None:
    x, *constants = node.inputs
    *outer, channels = graph.types[x].shape
    if len(outer) < _MATRIX_RANK:
        return
    rows = {"shape": (int(np.prod(outer)), channels)}
    matrix = graph.add_fresh("reshape", [x], rows, base=f"{node.output}.rows")
    base = f"{node.output}.product"
    product = graph.add_fresh("dense", [matrix, *constants], node.attrs, base=base, name=node.name)
    graph.add("reshape", [product], {"shape": graph.types[node.output].shape}, output=node.output)
