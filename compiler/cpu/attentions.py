"""Attention among the tensors of a model, and what is computed before the means of its values.

`attention_of` (`compiler.quantization.attentions`) says what attention is, in the graph of a model.
On GPUs, one kernel computes all of it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.graph.graph import Graph
from daedal.compiler.quantization.attentions import find_attentions
from daedal.compiler.tir.expr import Axis, Buffer, Expr, IntImm, Reduce
from daedal.compiler.tir.visit import loads

__all__ = ["Attended", "attended", "attention_stages", "is_reordered"]


@dataclass(frozen=True)
class Attended:
    """Tensors of one attention: the `scores` that its softmax reads, the `weights` that this gives,
    and the `result`, weighted means of values."""

    scores: te.Tensor
    weights: te.Tensor
    result: te.Tensor


def attended(graph: Graph, tensors: Mapping[str, te.Tensor]) -> tuple[Attended, ...]:
    """The attentions of a graph whose `tensors` have these formulas."""
    found = []
    for item in find_attentions(graph):
        own = [tensors.get(name) for name in (item.operand, item.weights, item.result)]
        known = [tensor for tensor in own if tensor is not None and tensor.value is not None]
        if len(known) == len(own):
            found.append(Attended(*known))
    return tuple(found)


def attention_stages(
    item: Attended,
    formulas: Mapping[Buffer, Expr],
    readers: Mapping[Buffer, Sequence[te.Tensor]],
    epilogues: Mapping[te.Tensor, te.Tensor],
    apart: Collection[Buffer],
) -> tuple[te.Tensor, ...] | None:
    """The tensors from the products of queries and keys to the weights, in order; None where
    something else reads one of them.

    Parameters
    ----------
    formulas : of all tensors that would be in memory.
    readers : among these, in order.
    epilogues : the reductions that others of them are computed of, element by element.
    apart : those that must be in memory.
    """
    if any(tensor not in readers for tensor in (item.scores, item.weights, item.result)):
        return None
    is_product = isinstance(formulas[item.scores], Reduce)
    products = item.scores if is_product else epilogues.get(item.scores)
    found: set[Buffer | None] = {item.scores, products}
    waiting: list[Buffer] = [item.weights]
    while waiting:
        tensor = waiting.pop()
        if tensor not in found:
            if tensor not in readers:
                return None
            found.add(tensor)
            waiting += {load.buffer for load in loads(formulas[tensor])}
    own = tuple(tensor for tensor in readers if tensor in found and isinstance(tensor, te.Tensor))
    inside = {*own, item.result}
    if any(tensor in apart or not inside.issuperset(readers[tensor]) for tensor in own):
        return None
    return own if (own[0], own[-1]) == (products, item.weights) else None


def is_reordered(tensor: te.Tensor, formula: Expr, source: te.Tensor) -> bool:
    """Whether a tensor is computed of `source` one by one, with axes in another order."""
    read = [load for load in loads(formula) if load.buffer is source]
    if isinstance(formula, Reduce) or not read or any(item != read[0] for item in read):
        return False
    indices = read[0].indices
    axes = [index for index in indices if isinstance(index, Axis)]
    return (
        read[0].pad_value is None
        and len(set(axes)) == len(axes)
        and {axis for axis in tensor.axes if axis.extent > 1} <= set(axes) <= set(tensor.axes)
        and all(
            index.extent == extent if isinstance(index, Axis) else index == IntImm(0)
            for index, extent in zip(indices, source.shape, strict=True)
        )
    )
