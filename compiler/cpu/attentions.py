"""Attention among the tensors of a model, and what is computed before the means of its values.

`attention_of` (`compiler.quantization.attentions`) says what attention is, in the graph of a model.
On GPUs, one kernel computes all of it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from daedal.compiler import te
from daedal.compiler.graph.graph import Graph
from daedal.compiler.ops.attended import Attended
from daedal.compiler.quantization.attentions import find_attentions
from daedal.compiler.tir.expr import Axis, Buffer, Expr, IntImm, Reduce
from daedal.compiler.tir.visit import loads

__all__ = ["Stages", "attended", "attention_stages", "is_reordered", "with_float32"]


def attended(graph: Graph, tensors: Mapping[str, te.Tensor]) -> tuple[Attended, ...]:
    """The attentions of a graph whose `tensors` have these formulas."""
    found = []
    for item in find_attentions(graph, selects=True):
        names = item.inner[0], item.operand, item.weights, item.result
        own = [tensors.get(name) for name in names]
        known = [tensor for tensor in own if tensor is not None and tensor.value is not None]
        if len(known) == len(own):
            products, scores, weights, result = known
            found.append(Attended(products, scores, weights, result))
    return tuple(found)


@dataclass(frozen=True)
class Stages:
    """What one kernel of attention computes.

    Attributes
    ----------
    before : tensors from the products of queries and keys to the weights, in order.
    mean : the sums of weights times values.
    """

    before: tuple[te.Tensor, ...]
    mean: te.Tensor


def with_float32(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model whose tensors of float16, which graphs do not have, are float32: its attentions have
    the same names."""
    half, single = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
    graph = model.graph
    values = [*graph.input, *graph.value_info, *graph.output]
    if not any(item.type.tensor_type.elem_type == half for item in values):
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    for item in (*graph.input, *graph.value_info, *graph.output):
        if item.type.tensor_type.elem_type == half:
            item.type.tensor_type.elem_type = single
    attributes = [item for node in graph.node for item in node.attribute]
    for tensor in (*graph.initializer, *(item.t for item in attributes)):
        if tensor.data_type == half:
            value = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    for item in attributes:
        if item.name in ("to", "dtype") and item.i == half:
            item.i = single
    return changed


def attention_stages(
    item: Attended,
    formulas: Mapping[Buffer, Expr],
    readers: Mapping[Buffer, Sequence[te.Tensor]],
    epilogues: Mapping[te.Tensor, te.Tensor],
    apart: Collection[Buffer],
) -> Stages | None:
    """The stages of an attention; None where something else reads one of them.

    Parameters
    ----------
    formulas : of all tensors that would be in memory.
    readers : among these, in order.
    epilogues : the reductions that others of them are computed of, element by element.
    apart : those that must be in memory.
    """
    if any(tensor not in readers for tensor in (item.scores, item.weights, item.result)):
        return None
    is_mean = isinstance(formulas[item.result], Reduce)
    mean = item.result if is_mean else epilogues.get(item.result)
    found: set[Buffer] = set(_products(item.scores, formulas, readers, epilogues))
    waiting: list[Buffer] = [item.weights]
    while waiting:
        tensor = waiting.pop()
        if tensor not in found:
            if tensor not in readers:
                return None
            found.add(tensor)
            waiting += {load.buffer for load in loads(formulas[tensor])}
    own = tuple(tensor for tensor in readers if tensor in found and isinstance(tensor, te.Tensor))
    inside = {*own, mean}
    if mean is None or not isinstance(formulas[own[0]], Reduce) or own[-1] is not item.weights:
        return None
    if any(tensor in apart or not inside.issuperset(readers[tensor]) for tensor in own):
        return None
    return Stages(own, mean)


def _products(
    scores: te.Tensor,
    formulas: Mapping[Buffer, Expr],
    readers: Mapping[Buffer, Sequence[te.Tensor]],
    epilogues: Mapping[te.Tensor, te.Tensor],
) -> list[te.Tensor]:
    """Scores, the reduction that they are computed of, and rounded sums between these."""
    found = [scores]
    while not isinstance(formulas[found[-1]], Reduce):
        last = found[-1]
        if last in epilogues:
            found.append(epilogues[last])
            continue
        rounded = [
            load.buffer
            for load in loads(formulas[last])
            if isinstance(load.buffer, te.Tensor) and load.buffer in epilogues
            if readers[load.buffer] == [last] and load.buffer.shape == last.shape
            if all(map(_is_own, load.indices, last.axes)) and load.pad_value is None
        ]
        if not rounded:
            break
        found.append(rounded[0])
    return found


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


def _is_own(index: Expr, axis: Axis) -> bool:
    return index is axis or (axis.extent == 1 and index == IntImm(0))
