"""Rewrites operators in the form that the quantizer knows, exactly or with one more rounding."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from daedal.compiler.frontend.attributes import attribute, drop_attributes
from daedal.compiler.quantization.network import Network

__all__ = ["normalize", "normalize_views"]

_TOKENS_RANK = 3
"""Of (batch, tokens, channels): factors per channel would be on the last axis, or on the second,
and the compiler computes a HardSwish as it is."""

_Shapes = Mapping[str, tuple[int, ...]]


def normalize(network: Network) -> None:
    """Replace operators by simpler ones.

    Before -> after::

        Gemm(x, W, b) alpha beta    ->  Gemm(x, alpha * W, beta * b)
        Add(MatMul(x, W), b)        ->  Gemm(x, W, b)                   b per output
        MatMul(x, W)                ->  Reshape(Gemm(Reshape(x), W))    x of rank 3 and up
        Div(x, c)                   ->  Mul(x, 1 / c)
        Sub(x, c)                   ->  Add(x, -c)
        Sum(a, b, c)                ->  Add(Add(a, b), c)
        a, b = Split(x)             ->  a = Slice(x);  b = Slice(x)
        HardSigmoid(x) alpha beta   ->  Clip(Add(Mul(x, alpha), beta), 0, 1)
        HardSwish(x)                ->  Mul(x, Clip(Add(Mul(x, 1 / 6), 0.5), 0, 1))     of maps
    """
    shapes = {name: shape for name, (_, shape) in network.types().items()}
    for node in network.nodes:
        if node.op_type == "Gemm":
            _absorb_factors(network, node)
        elif node.op_type in ("Div", "Sub"):
            _invert_constant(network, node)
    _join_bias(network, shapes)
    expand = {"Sum": _split_sum, "Split": _slice, "MatMul": _flatten, "Gemm": _flatten}
    expand |= dict.fromkeys(("HardSigmoid", "HardSwish"), _gate)
    network.rewrite(
        lambda node: expand[node.op_type](network, node, shapes) if node.op_type in expand else None
    )


def normalize_views(network: Network) -> None:
    """Write Flatten, Squeeze and Unsqueeze as Reshape, as rewrites of transformers know it."""
    shapes = {name: shape for name, (_, shape) in network.types().items()}
    for node in network.nodes:
        shape = shapes.get(node.output[0])
        if node.op_type not in ("Flatten", "Squeeze", "Unsqueeze") or shape is None:
            continue
        node.CopyFrom(network.reshape(node.input[0], shape, node.output[0], node.name))


def _absorb_factors(network: Network, node: onnx.NodeProto) -> None:
    """Fold alpha into the weights and beta into the bias."""
    factors = [attribute(node, "alpha", 1.0), attribute(node, "beta", 1.0)]
    operands = list(node.input[1:3])
    if any(
        name and factor != 1.0 and name not in network.constants
        for name, factor in zip(operands, factors, strict=False)
    ):
        return
    for index, (name, factor) in enumerate(zip(operands, factors, strict=False), start=1):
        if name and factor != 1.0:
            scaled = network.constants[name] * np.float32(factor)
            node.input[index] = network.add_constant(f"{name}_scaled", scaled)
    drop_attributes(node, "alpha", "beta")


def _invert_constant(network: Network, node: onnx.NodeProto) -> None:
    """Rewrite division by and subtraction of a constant as product and sum."""
    value = network.constants.get(node.input[1])
    if value is None or value.dtype.kind != "f" or node.input[0] in network.constants:
        return
    if node.op_type == "Div":
        with np.errstate(divide="ignore"):
            inverse = np.reciprocal(value)
        if not np.isfinite(inverse).all():
            return
        node.op_type = "Mul"
    else:
        inverse = np.negative(value)
        node.op_type = "Add"
    node.input[1] = network.add_constant(f"{node.input[1]}_inverse", np.asarray(inverse))


def _split_sum(network: Network, node: onnx.NodeProto, shapes: _Shapes) -> list[onnx.NodeProto]:
    if len(node.input) < 2:
        return [node]
    parts, total = [], node.input[0]
    for number, name in enumerate(node.input[1:], start=2):
        last = number == len(node.input)
        output = node.output[0] if last else network.fresh(f"{node.output[0]}_sum")
        part_name = node.name if last else output
        parts.append(helper.make_node("Add", [total, name], [output], name=part_name))
        total = output
    return parts


def _slice(network: Network, node: onnx.NodeProto, shapes: _Shapes) -> list[onnx.NodeProto]:
    """A Slice for each output. Source: ONNX Split-13 and -18, whose results have known shapes."""
    axis = attribute(node, "axis", 0)
    outputs = [name for name in node.output if name]
    if len(outputs) < len(node.output) or not all(name in shapes for name in outputs):
        return [node]
    parts, begin = [], 0
    for output in outputs:
        end = begin + shapes[output][axis]
        operands = [
            network.add_constant(f"{output}_{role}", np.array([value], dtype=np.int64))
            for role, value in (("begin", begin), ("end", end), ("axis", axis))
        ]
        name = network.fresh(f"{output}_slice")
        parts.append(helper.make_node("Slice", [node.input[0], *operands], [output], name=name))
        begin = end
    return parts


def _gate(network: Network, node: onnx.NodeProto, shapes: _Shapes) -> list[onnx.NodeProto]:
    """Expand HardSigmoid and HardSwish; factors are per channel, so that one layer does both."""
    x, y = node.input[0], node.output[0]
    swish = node.op_type == "HardSwish"
    slope = 1 / 6 if swish else attribute(node, "alpha", 0.2)
    offset = 0.5 if swish else attribute(node, "beta", 0.5)
    shape = shapes.get(x, ())
    if swish and len(shape) == _TOKENS_RANK:
        return [node]
    channels = (shape[1], *(1,) * (len(shape) - 2)) if len(shape) > 2 else (1,)
    scaled, line = (network.fresh(f"{y}_{role}") for role in ("scaled", "line"))
    gate = network.fresh(f"{y}_gate") if swish else y
    constants = [
        network.add_constant(f"{y}_{role}", np.full(shape, value, dtype=np.float32))
        for role, shape, value in (
            ("slope", channels, slope),
            ("offset", channels, offset),
            ("low", (), 0),
            ("high", (), 1),
        )
    ]
    parts = [
        helper.make_node("Mul", [x, constants[0]], [scaled], name=scaled),
        helper.make_node("Add", [scaled, constants[1]], [line], name=line),
        helper.make_node("Clip", [line, *constants[2:]], [gate], name=gate if swish else node.name),
    ]
    if swish:
        parts.append(helper.make_node("Mul", [x, gate], [y], name=node.name))
    return parts


def _flatten(network: Network, node: onnx.NodeProto, shapes: _Shapes) -> list[onnx.NodeProto]:
    """Rewrite the product of a tensor and a matrix as a product of two matrices."""
    shape = shapes.get(node.input[0], ())
    weights = network.constants.get(node.input[1])
    if len(shape) < 3 or weights is None or weights.ndim != 2:
        return [node]
    output = node.output[0]
    rows, product = (network.fresh(f"{output}_{role}") for role in ("rows", "product"))
    return [
        network.reshape(node.input[0], (-1, shape[-1]), rows),
        helper.make_node("Gemm", [rows, *node.input[1:]], [product], name=node.name),
        network.reshape(product, (*shape[:-1], weights.shape[1]), output),
    ]


def _join_bias(network: Network, shapes: _Shapes) -> None:
    """Turn a constant added to a matrix product into its bias."""
    producers, users = network.producers(), network.users()
    joined = set()
    for node in network.nodes:
        found = (
            _product_and_bias(network, producers, users, node) if node.op_type == "Add" else None
        )
        if found is None or len(shapes.get(found[0].input[0], ())) < 2:
            continue
        product, bias = found
        product.op_type = "Gemm"
        product.input.append(network.add_constant(f"{bias}_bias", network.constants[bias].ravel()))
        product.output[0] = node.output[0]
        joined.add(node.output[0])
    network.nodes = [
        node for node in network.nodes if node.op_type != "Add" or node.output[0] not in joined
    ]


def _product_and_bias(
    network: Network,
    producers: Mapping[str, onnx.NodeProto],
    users: Mapping[str, Sequence[onnx.NodeProto]],
    node: onnx.NodeProto,
) -> tuple[onnx.NodeProto, str] | None:
    """The MatMul whose result only `node` reads, and the vector that `node` adds; else None."""
    for result, bias in (tuple(node.input), tuple(reversed(node.input))):
        product = producers.get(result)
        if product is None or product.op_type != "MatMul" or bias not in network.constants:
            continue
        weights = network.constants.get(product.input[1])
        value = network.constants[bias]
        if weights is None or weights.ndim != 2 or not network.has_one_user(result, users):
            continue
        if value.shape in ((weights.shape[1],), (1, weights.shape[1])):
            return product, bias
    return None
