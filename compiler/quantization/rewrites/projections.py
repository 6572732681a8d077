"""Splits projections: slices of what a layer gives become layers of their own."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from daedal.compiler.graph.dataflow import Dataflow, is_read_once
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.registry import ints, whole
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.quantization.rewrites.patterns import producer, slice_along

__all__ = ["Form", "form_of", "split_projections"]


@dataclass(frozen=True)
class Form:
    """A projection's result in another form: the result of the dense `layer` as `shape`, of which
    the axes from `rows` on are its outputs, then with the axes in `order`."""

    layer: Node
    shape: tuple[int, ...]
    rows: int
    order: tuple[int, ...]

    def parameters(self, graph: Dataflow) -> list[Array]:
        """Weights (inputs, outputs), and the bias (outputs,) if there is one."""
        weights, *bias = (graph.constant(name) for name in self.layer.inputs[1:])
        return [weights.T if whole(self.layer.attrs, "transposed") else weights, *bias]

    def add_projection(
        self, graph: Rewriter, parameters: Sequence[Array], shape: Sequence[int], output: str
    ) -> None:
        """Add another projection in this form, with other parameters, and another `shape`; its
        result is `output`."""
        given = [
            graph.fresh_constant(f"{output}.{role}", value)
            for role, value in zip(("weights", "bias"), parameters, strict=False)
        ]
        operands = [self.layer.inputs[0], *given]
        product = graph.add_fresh("dense", operands, {"transposed": 0}, base=f"{output}.product")
        view = graph.add_fresh("reshape", [product], {"shape": tuple(shape)}, base=f"{output}.view")
        graph.add("transpose", [view], {"order": self.order}, output=output)


def form_of(graph: Dataflow, name: str) -> Form | None:
    """The projection of which `name` is a form that nothing else reads, or None."""
    order = tuple(range(graph.types[name].rank))
    shape, source = graph.types[name].shape, name
    while (node := producer(graph, source, "reshape", "transpose")) is not None:
        if node.op == "transpose":
            if shape != graph.types[source].shape:
                return None
            own = ints(node.attrs, "order")
            order = tuple(own[axis] for axis in order)
            shape = graph.types[node.inputs[0]].shape
        source = node.inputs[0]
        if not is_read_once(graph, source):
            return None
    layer = producer(graph, source, "dense")
    if layer is None or not all(map(graph.is_constant, layer.inputs[1:])):
        return None
    outputs, rows = graph.types[source].shape[-1], len(shape)
    while rows and math.prod(shape[rows:]) < outputs:
        rows -= 1
    return Form(layer, shape, rows, order) if math.prod(shape[rows:]) == outputs else None


def split_projections(graph: Graph) -> Graph:
    """Compute slices of the outputs of a layer by layers of their own. Exact.

    Reshapes and transposes may lie between. Only slices that do not overlap may read the result.

    Before::

        x = dense(a, w, b) transposed=0                     # float32[1,50,192]
        q = slice(x) begins=0,0,0 ends=1,50,64 ...
        k = slice(x) begins=0,0,64 ends=1,50,128 ...

    After::

        q = dense(a, q.weights, q.bias) transposed=0        # float32[1,50,64]
        k = dense(a, k.weights, k.bias) transposed=0
    """
    return walk(graph, {"slice": _split})


def _split(graph: Rewriter, node: Node) -> None:
    part = slice_along(graph, node)
    if part is None or not _is_cut(graph, node.inputs[0], part[0]):
        return
    form = form_of(graph, node.inputs[0])
    if form is None:
        _split_convolution(graph, node, *part)
        return
    place, begin, end = part
    axis = form.order[place]
    if axis < form.rows:
        return
    kept = _outputs(form.shape[form.rows :], axis - form.rows, begin, end)
    parameters = [item[..., kept] for item in form.parameters(graph)]
    shape = (*form.shape[:axis], end - begin, *form.shape[axis + 1 :])
    form.add_projection(graph, parameters, shape, node.output)


def _split_convolution(graph: Rewriter, node: Node, axis: int, begin: int, end: int) -> None:
    """Replace a slice of heads, which are a view of the channels of a convolution."""
    view = producer(graph, node.inputs[0], "reshape")
    if view is None or not is_read_once(graph, view.inputs[0]):
        return
    conv, shape = producer(graph, view.inputs[0], "conv2d"), graph.types[view.output].shape
    if conv is None or whole(conv.attrs, "groups") != 1 or shape[0] != 1:
        return
    if not all(map(graph.is_constant, conv.inputs[1:])):
        return
    channels, last = graph.types[conv.output].shape[1], 1
    while last < len(shape) and math.prod(shape[1:last]) < channels:
        last += 1
    if math.prod(shape[1:last]) != channels or not 0 < axis < last:
        return
    kept = _outputs(shape[1:last], axis - 1, begin, end)
    x, *parameters = conv.inputs
    operands = [
        graph.fresh_constant(f"{node.output}.{role}", graph.constant(name)[kept])
        for role, name in zip(("weights", "bias"), parameters, strict=False)
    ]
    base = f"{node.output}.map"
    sliced = graph.add_fresh("conv2d", [x, *operands], conv.attrs, base=base)
    shape = graph.types[node.output].shape
    graph.add("reshape", [sliced], {"shape": shape}, output=node.output)


def _outputs(shape: Sequence[int], axis: int, begin: int, end: int) -> Array:
    """The numbers of outputs in `shape` that lie between `begin` and `end` of an axis."""
    numbers = np.arange(math.prod(shape)).reshape(shape)
    return numbers.take(range(begin, end), axis).ravel()


def _is_cut(graph: Dataflow, name: str, axis: int) -> bool:
    """Whether all that reads a tensor are slices of `axis` that do not overlap."""
    parts = [slice_along(graph, user) for user in graph.users[name]]
    if name in graph.outputs or any(item is None or item[0] != axis for item in parts):
        return False
    ends = sorted(item[1:] for item in parts if item is not None)
    return all(first[1] <= second[0] for first, second in pairwise(ends))
