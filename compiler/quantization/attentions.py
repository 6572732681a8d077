"""Finds attention in a network: a softmax between two products, which stays in real numbers.

The compiler computes such attention as two layers, whose scores and weights no tensor of the model
describes (`compiler.integer.attention`). So only queries, keys, values, the result, and a mask that
is computed, are quantized.
"""

from dataclasses import dataclass

from daedal.compiler.graph.dataflow import Dataflow, sole_producer
from daedal.compiler.graph.graph import Node
from daedal.compiler.quantization.operators import norm_operand, product_operands
from daedal.compiler.quantization.rewrites.patterns import both_orders, number_of

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
    inner : results of all nodes up to the result, which is the last of them.
    """

    queries: str
    keys: str
    values: str
    scores: str
    mask: str | None
    factor: float
    result: str
    inner: tuple[str, ...]


def find_attentions(graph: Dataflow) -> tuple[Attention, ...]:
    """Every attention whose inner tensors nothing else reads, in the graph's order."""
    found = (_attention(graph, node) for node in graph.producers.values() if node.op == "matmul")
    return tuple(item for item in found if item is not None)


def _attention(graph: Dataflow, node: Node) -> Attention | None:
    if not product_operands(graph, node):
        return None
    inner = [node.output]

    def step(name: str, op: str) -> Node | None:
        """The node of that kind behind an inner tensor that only one node reads."""
        behind = sole_producer(graph, name, (op,))
        if behind is not None:
            inner.append(name)
        return behind

    softmax = step(node.inputs[0], "softmax")
    if softmax is None or norm_operand(graph, softmax) is None:
        return None
    name, mask = softmax.inputs[0], None
    added = step(name, "add")
    if added is not None:
        kinds = [_is_product(graph, operand) for operand in added.inputs]
        if sum(kinds) != 1:
            return None
        name, mask = added.inputs[kinds.index(True)], added.inputs[kinds.index(False)]
    scores, factor = name, 1.0
    scaled = step(name, "mul")
    if scaled is not None:
        found = [(x, number_of(graph, c)) for x, c in both_orders(scaled)]
        known = [(x, value) for x, value in found if value is not None]
        if not known or not known[0][1] > 0:
            return None
        name, factor = known[0]
    product = step(name, "matmul")
    if product is None or not product_operands(graph, product):
        return None
    queries, keys = product.inputs
    return Attention(
        queries, keys, node.inputs[1], scores, mask, factor, node.output, tuple(reversed(inner))
    )


def _is_product(graph: Dataflow, name: str) -> bool:
    """Whether `name` is a product of matrices, or one times something."""
    node = graph.producers.get(name)
    if node is not None and node.op == "mul":
        return any(_is_product(graph, operand) for operand in node.inputs)
    return node is not None and node.op == "matmul"
