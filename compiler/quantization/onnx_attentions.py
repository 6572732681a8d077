"""Finds attention in a network: a softmax between two products, which stays in real numbers.

The compiler computes such attention as two layers, whose scores and weights no tensor of the model
describes (`compiler.integer.attention`). So only queries, keys, values, the result, and a mask that
is computed, are quantized.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx

from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.quantization.network import Network
from daedal.compiler.quantization.onnx_operators import Types, product_operands

__all__ = ["Attention", "find_attentions"]


@dataclass(frozen=True)
class Attention:
    """Names of the tensors of one attention.

    Parameters
    ----------
    queries, keys, values : operands of the products.
    scores : the first product, with the number that multiplies it, without the mask.
    mask : what is added to it, or None.
    factor : that number.
    result : the second product.
    inner : first outputs of all nodes up to the result, which is the last of them.
    """

    queries: str
    keys: str
    values: str
    scores: str
    mask: str | None
    factor: float
    result: str
    inner: tuple[str, ...]


def find_attentions(network: Network, types: Types) -> tuple[Attention, ...]:
    """Every attention whose inner tensors nothing else reads, in the network's order."""
    producers, users = network.producers(), network.users()
    found = (_attention(network, types, producers, users, node) for node in network.nodes)
    return tuple(item for item in found if item is not None)


def _attention(
    network: Network,
    types: Types,
    producers: Mapping[str, onnx.NodeProto],
    users: Mapping[str, Sequence[onnx.NodeProto]],
    node: onnx.NodeProto,
) -> Attention | None:
    operands = product_operands(network, types, node)
    if node.op_type != "MatMul" or len(operands) != 2:
        return None
    inner = [node.output[0]]

    def step(name: str, op_type: str) -> onnx.NodeProto | None:
        """The node of that kind behind an inner tensor that only one node reads."""
        behind = producers.get(name)
        if behind is None or behind.op_type != op_type or not network.has_one_user(name, users):
            return None
        inner.append(name)
        return behind

    softmax = step(node.input[0], "Softmax")
    if softmax is None or attribute(softmax, "axis", -1) not in _last(types, softmax.input[0]):
        return None
    name, mask = softmax.input[0], None
    added = step(name, "Add")
    if added is not None:
        kinds = [_is_product(producers, operand) for operand in added.input]
        if sum(kinds) != 1:
            return None
        name, mask = added.input[kinds.index(True)], added.input[kinds.index(False)]
    scores, factor = name, 1.0
    scaled = step(name, "Mul")
    if scaled is not None:
        numbers = [network.constants.get(operand) for operand in scaled.input]
        place = next((i for i, x in enumerate(numbers) if x is not None and x.size == 1), None)
        value = None if place is None else numbers[place]
        if place is None or value is None or not value.reshape(()) > 0:
            return None
        name, factor = scaled.input[1 - place], float(value.reshape(()))
    product = step(name, "MatMul")
    if product is None or len(product_operands(network, types, product)) != 2:
        return None
    queries, keys = product.input
    return Attention(
        queries, keys, node.input[1], scores, mask, factor, node.output[0], tuple(reversed(inner))
    )


def _last(types: Types, name: str) -> tuple[int, int]:
    return -1, len(types[name][1]) - 1


def _is_product(producers: Mapping[str, onnx.NodeProto], name: str) -> bool:
    """Whether `name` is a product of matrices, or one times something."""
    node = producers.get(name)
    if node is not None and node.op_type == "Mul":
        return any(_is_product(producers, operand) for operand in node.input)
    return node is not None and node.op_type == "MatMul"
