"""Writes operators in the one form that the quantizer knows, each exactly or by one rounding."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from daedal.compiler.quantization.attributes import attribute, drop_attributes
from daedal.compiler.quantization.network import Network

__all__ = ["normalize"]


def normalize(network: Network) -> None:
    """Replace operators by simpler ones.

    Before -> after::

        Gemm(x, W, b) alpha beta    ->  Gemm(x, alpha * W, beta * b)
        Add(MatMul(x, W), b)        ->  Gemm(x, W, b)           x of rank 2, b per output
        Div(x, c)                   ->  Mul(x, 1 / c)
        Sub(x, c)                   ->  Add(x, -c)
        Sum(a, b, c)                ->  Add(Add(a, b), c)
    """
    types = network.types()
    for node in network.nodes:
        if node.op_type == "Gemm":
            _absorb_factors(network, node)
        elif node.op_type in ("Div", "Sub"):
            _invert_constant(network, node)
    network.nodes = [part for node in network.nodes for part in _split_sum(network, node)]
    _join_bias(network, {name: len(shape) for name, (_, shape) in types.items()})


def _absorb_factors(network: Network, node: onnx.NodeProto) -> None:
    """alpha into the weights and beta into the bias."""
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
    """Division and subtraction of a constant as their inverses."""
    value = network.constants.get(node.input[1])
    if value is None or value.dtype.kind != "f" or node.input[0] in network.constants:
        return
    if node.op_type == "Div":
        if not np.all(value):
            return
        node.op_type, inverse = "Mul", np.reciprocal(value)
    else:
        node.op_type, inverse = "Add", np.negative(value)
    node.input[1] = network.add_constant(f"{node.input[1]}_inverse", np.asarray(inverse))


def _split_sum(network: Network, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    if node.op_type != "Sum" or len(node.input) < 2:
        return [node]
    parts, total = [], node.input[0]
    for number, name in enumerate(node.input[1:], start=2):
        last = number == len(node.input)
        output = node.output[0] if last else network.fresh(f"{node.output[0]}_sum")
        part_name = node.name if last else output
        parts.append(helper.make_node("Add", [total, name], [output], name=part_name))
        total = output
    return parts


def _join_bias(network: Network, ranks: Mapping[str, int]) -> None:
    """A constant added to a product of matrices becomes its bias."""
    producers, users = network.producers(), network.users()
    joined = set()
    for node in network.nodes:
        found = (
            _product_and_bias(network, producers, users, node) if node.op_type == "Add" else None
        )
        if found is None or ranks.get(found[0].input[0]) != 2:
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
    """The MatMul whose result only `node` reads, and the vector that it adds; else None."""
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
