"""Finds attention in a graph: a softmax between two products, which stays in real numbers.

The compiler computes such attention as two layers, whose scores and weights no tensor of the model
describes (`compiler.integer.attention`). So only queries, keys, values, the result, and a mask that
is computed, are quantized.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from daedal.compiler.graph.dataflow import Dataflow, producer_of, sole_producer
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.rewrite import Rewriter
from daedal.compiler.quantization.operators import norm_operand, product_operands
from daedal.compiler.quantization.rewrites.patterns import factor_of

__all__ = ["Attention", "attention_of", "copy_attention", "find_attentions"]


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

    @property
    def operand(self) -> str:
        """What the softmax reads."""
        return self.inner[-3]

    @property
    def weights(self) -> str:
        """What it gives."""
        return self.inner[-2]


def find_attentions(graph: Graph, *, selects: bool = False) -> tuple[Attention, ...]:
    """Every attention whose inner tensors nothing else reads, in the graph's order; `selects` is
    that of `attention_of`."""
    found = (attention_of(graph, node, selects=selects) for node in graph.nodes)
    return tuple(item for item in found if item is not None)


def attention_of(graph: Dataflow, node: Node, *, selects: bool = False) -> Attention | None:
    """The attention whose second product is `node`, or None::

    s = mul(matmul(queries, keys), factor)      # or without a factor
    w = softmax(add(s, mask))                   # or without a mask
    result = matmul(w, values)

    With `selects`, the softmax may also read scores of which some are replaced by ONNX's Where.
    """
    if len(product_operands(graph, node)) != 2 or node.inputs[0] == node.inputs[1]:
        return None
    weights, values = node.inputs
    inner = [node.output, weights]
    softmax = sole_producer(graph, weights, ("softmax",))
    name = None if softmax is None else norm_operand(graph, softmax)
    if name is None:
        return None
    inner.append(name)
    selected = sole_producer(graph, name, ("onnx",)) if selects else None
    if selected is not None and selected.attrs["op_type"] == "Where":
        computed = [operand for operand in selected.inputs[1:] if _leads_back(graph, operand)]
        if len(computed) != 1:
            return None
        (name,) = computed
        inner.append(name)
    mask, factor = None, 1.0
    added = sole_producer(graph, name, ("add",))
    if added is not None:
        products = [operand for operand in added.inputs if _is_product(graph, operand)]
        if len(products) != 1:
            return None
        (name,) = products
        (mask,) = (operand for operand in added.inputs if operand != name)
        inner.append(name)
    scores = name
    scaled = sole_producer(graph, name, ("mul",))
    if scaled is not None:
        found = factor_of(graph, scaled)
        if found is None or not found[1] > 0:
            return None
        name, factor = found
        inner.append(name)
    product = sole_producer(graph, name, ("matmul",))
    if product is None or len(product_operands(graph, product)) != 2:
        return None
    queries, keys = product.inputs
    inner.reverse()
    return Attention(queries, keys, values, scores, mask, factor, node.output, tuple(inner))


def copy_attention(
    graph: Rewriter, attention: Attention, operands: Mapping[str, str], role: str, output: str = ""
) -> str:
    """Add the nodes of an attention again; return the result.

    Parameters
    ----------
    operands : other ones, by field of `Attention`: ``queries``, ``keys``, ``values``, ``mask``.
    role : of new tensors, which are called ``NAME.role``.
    output : name of the result, if it is not new.
    """
    product, *inner = (graph.producers[name] for name in attention.inner)
    pair = [operands.get(field, getattr(attention, field)) for field in ("queries", "keys")]
    name = graph.add_fresh("matmul", pair, base=f"{product.output}.{role}", name=product.name)
    mask = operands.get("mask", attention.mask)
    for node, before in zip(inner, attention.inner, strict=False):
        renamed = {before: name, attention.mask: mask}
        attrs = {"axes": (graph.types[name].rank - 1,)} if node.op == "softmax" else {}
        pair = [renamed.get(operand) or operand for operand in node.inputs]
        if node.op == "matmul":
            pair = [name, operands.get("values", attention.values)]
        own = output if node.output == attention.result else ""
        own = own or graph.fresh_name(f"{node.output}.{role}")
        name = graph.add(node.op, pair, attrs, output=own, name=node.name)
    return name


def _leads_back(graph: Dataflow, name: str) -> bool:
    """Whether `name` is a product of matrices, perhaps with a factor and a mask."""
    added = producer_of(graph, name, ("add",))
    operands = (name,) if added is None else added.inputs
    return any(_is_product(graph, operand) for operand in operands)


def _is_product(graph: Dataflow, name: str) -> bool:
    """Whether `name` is a product of matrices, or one times something."""
    node = producer_of(graph, name, ("matmul", "mul"))
    if node is not None and node.op == "mul":
        return any(_is_product(graph, operand) for operand in node.inputs)
    return node is not None
