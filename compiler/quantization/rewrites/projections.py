"""Splits projections: slices of what a product gives become products of their own."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.quantization.network import Array
from daedal.compiler.quantization.rewrites.edges import Edges

__all__ = ["Form", "form_of", "split_projections"]


def split_projections(edges: Edges) -> None:
    """Slices of the outputs of one projection become projections."""
    edges.network.rewrite(lambda node: _sliced(edges, node))


def _sliced(edges: Edges, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """The projection or convolution of which `node` is a slice, as nodes with the slice's output;
    None if `node` is something else."""
    part = edges.slice_of(node)
    if part is None or not _is_cut(edges, node.input[0], part[0]):
        return None
    found = _sliced_projection(edges, node, *part)
    return _sliced_convolution(edges, node, *part) if found is None else found


def _sliced_projection(
    edges: Edges, node: onnx.NodeProto, axis: int, begin: int, end: int
) -> list[onnx.NodeProto] | None:
    """The projection to outputs `begin` to `end` of an axis, or None if none gives the tensor."""
    form = form_of(edges, node.input[0])
    if form is None:
        return None
    for order in reversed(form.orders):
        axis = order[axis]
    if axis < form.rows:
        return None
    outputs = np.arange(math.prod(form.shape[form.rows :])).reshape(form.shape[form.rows :])
    kept = outputs.take(range(begin, end), axis - form.rows).ravel()
    parameters = [item[..., kept] for item in edges.parameters(form.layer)]
    shape = (*form.shape[:axis], end - begin, *form.shape[axis + 1 :])
    return form.projection(edges, parameters, shape, node.output[0])


def _sliced_convolution(
    edges: Edges, node: onnx.NodeProto, axis: int, begin: int, end: int
) -> list[onnx.NodeProto] | None:
    """The convolution to a part of the channels of heads, and its view, or None."""
    name, shape = node.input[0], edges.shapes[node.input[0]]
    while (view := edges.producer(name, "Reshape")) is not None:
        name = view.input[0]
        if not edges.network.has_one_user(name, edges.users):
            return None
    conv = edges.producer(name, "Conv")
    if conv is None or name == node.input[0] or attribute(conv, "group", 1) != 1:
        return None
    if not all(operand in edges.network.constants for operand in conv.input[1:]):
        return None
    count, last = len(edges.network.constants[conv.input[1]]), 1
    while last < len(shape) and math.prod(shape[1:last]) < count:
        last += 1
    heads = shape[1:last]
    if math.prod(heads) != count or shape[0] != 1 or not 0 < axis < last:
        return None
    kept = np.arange(count).reshape(heads).take(range(begin, end), axis - 1).ravel()
    output = node.output[0]
    result = edges.network.fresh(f"{output}_map")
    sliced = onnx.NodeProto()
    sliced.CopyFrom(conv)
    sliced.name, sliced.output[0] = result, result
    for index, operand in enumerate(conv.input[1:], 1):
        values = edges.network.constants[operand][kept]
        sliced.input[index] = edges.network.add_constant(f"{output}_{index}", values)
    form = (*shape[:axis], end - begin, *shape[axis + 1 :])
    return [sliced, edges.network.reshape(result, form, output)]


def _is_cut(edges: Edges, name: str, axis: int) -> bool:
    """Whether all that reads a tensor are slices of `axis` that do not overlap."""
    parts = [edges.slice_of(user) for user in edges.users[name]]
    if name in edges.network.output_names or any(item is None or item[0] != axis for item in parts):
        return False
    ends = sorted((item[1], item[2]) for item in parts if item is not None)
    return all(ends[index][1] <= ends[index + 1][0] for index in range(len(ends) - 1))


@dataclass(frozen=True)
class Form:
    """A projection's result in another form: `shape`, of which the axes from `rows` on are the
    outputs of the Gemm `layer`, then transposed to each of `orders`."""

    layer: onnx.NodeProto
    shape: tuple[int, ...]
    rows: int
    orders: tuple[list[int], ...]

    def projection(
        self, edges: Edges, parameters: Sequence[Array], shape: Sequence[int], output: str
    ) -> list[onnx.NodeProto]:
        """Another projection in this form, with other parameters and before the transpositions
        another shape; its result is `output`."""
        names = [edges.network.fresh(f"{output}_heads") for _ in self.orders] + [output]
        return [
            *edges.add_projection(self.layer, parameters, shape, names[0]),
            *(
                helper.make_node("Transpose", [before], [after], name=after, perm=order)
                for order, before, after in zip(self.orders, names, names[1:], strict=False)
            ),
        ]


def form_of(edges: Edges, name: str) -> Form | None:
    """The projection of which `name` is a form that nothing else reads, or None."""
    orders: list[list[int]] = []
    while (turned := edges.producer(name, "Transpose")) is not None:
        name = turned.input[0]
        orders.insert(0, list(attribute(turned, "perm", range(len(edges.shapes[name]))[::-1])))
        if not edges.network.has_one_user(name, edges.users):
            return None
    shape = edges.shapes.get(name, ())
    while (view := edges.producer(name, "Reshape")) is not None:
        name = view.input[0]
        if not edges.network.has_one_user(name, edges.users):
            return None
    layer = edges.layer(name)
    if layer is None or math.prod(shape) == 0:
        return None
    outputs, rows = edges.parameters(layer)[0].shape[1], len(shape)
    while rows and math.prod(shape[rows:]) < outputs:
        rows -= 1
    return Form(layer, shape, rows, tuple(orders)) if math.prod(shape[rows:]) == outputs else None
