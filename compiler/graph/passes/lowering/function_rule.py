"""The lowering rule of `lower_qdq` for functions of one quantized tensor: a table.

Any connected group of elementwise operators and numbers that depends on one quantized tensor only
is a function of 256 values, however the model writes it: ``x * sigmoid(x)``,
``0.5 * x * (1 + erf(x / sqrt(2)))``, with or without quantize and dequantize in between. The
group's own operators compute its results.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.foreign import FOREIGN
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.compiler.graph.ops.looked_up import Q_REQUANTIZE_LOOKUP
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.graph.passes.lowering.lowering_context import ON_GRID, LoweringContext
from daedal.compiler.graph.passes.lowering.requantization import Quantization, QuantizedTensor
from daedal.compiler.graph.types import TensorType
from daedal.compiler.ops.onnx.table import ELEMENTWISE
from daedal.isa import numerics
from daedal.isa.scratchpad import TABLE_ENTRIES

__all__ = ["function_nodes", "lower_function"]

_INTEGERS = ("int8", "uint8")

_MOST_NODES = 200
"""Nodes of a group; a longer chain is cut where it is quantized."""


def lower_function(
    context: LoweringContext, tensor: str, q: Quantization, output: str
) -> str | None:
    """`tensor` by a table, if it is a function of one quantized tensor.

    Where a single requantization computes it, there is no table; if that follows a table, it
    becomes part of it in `compose_tables`. A group begins at the latest quantized tensor on which
    all of it depends, or earlier if nothing else reads that one. An input at which the function is
    not defined gives the lowest value, as in onnxruntime.

    Before::

        a = dequantize(x, s, z)
        b = activation(a) function=sigmoid
        c = mul(a, b)
        y = quantize(c, t, o)

    After::

        const y.table: int8[256]
        y = q_requantize_lookup(x, y.table, identity)
    """
    for group in reversed(_function_groups(context.graph, tensor)):
        x = _source(context, group)
        if x is None:
            continue
        reals = group.evaluate(context.graph, tensor, x)
        if reals is None:
            return None
        table = numerics.quantize(_defined(reals), q.scale, q.zero_point, np.int8)
        table = np.clip(table, q.low, q.high).astype(np.int8)
        builder = context.builder
        name = builder.constant(builder.fresh_name(f"{output}.table"), table)
        params = context.define_params(output, IDENTITY)
        return builder.add(
            Q_REQUANTIZE_LOOKUP.name, [x.name, name, params], UNCHANGED, output=output
        )
    return None


def function_nodes(graph: Graph, tensor: str) -> frozenset[str]:
    """Results of the nodes that a table would compute for the quantized `tensor`, if any."""
    quantize = graph.producers[tensor]
    if not _is_scalar(graph, quantize):
        return frozenset()
    for group in reversed(_function_groups(graph, quantize.inputs[0])):
        if group.integers:
            return frozenset(group.nodes)
    return frozenset()


@dataclass
class _Group:
    """Nodes between a tensor and the tensors that it is computed from.

    Parameters
    ----------
    shape : of all of them.
    nodes : by output.
    integers : quantized tensors that the nodes dequantize.
    reals : other tensors that they read: of operators that choose among elements.
    """

    shape: tuple[int, ...]
    nodes: dict[str, Node] = field(default_factory=dict)
    integers: set[str] = field(default_factory=set)
    reals: set[str] = field(default_factory=set)

    def reach(self, graph: Graph, tensor: str) -> bool:
        """Add `tensor` and what it is computed from; False if it is no function of elements."""
        stack = [tensor]
        while stack:
            name = stack.pop()
            if name in self.nodes or name in self.reals:
                continue
            node = graph.producers.get(name)
            kind = graph.types[name]
            dequantizes = node is not None and node.op == "dequantize" and _is_scalar(graph, node)
            if graph.is_constant(name) or (
                dequantizes and node is not None and graph.is_constant(node.inputs[0])
            ):
                if kind.num_elements > 1:
                    return False
                self.nodes |= {} if node is None else {name: node}
                continue
            if kind.shape != self.shape:
                return False
            if node is not None and dequantizes:
                self.integers.add(node.inputs[0])
                self.nodes[name] = node
            elif node is not None and _is_elementwise(node):
                self.nodes[name] = node
                stack.extend(node.inputs)
            elif node is not None and node.op in ON_GRID:
                self.reals.add(name)
            else:
                return False
        return len(self.nodes) <= _MOST_NODES

    def without(self, tensor: str, graph: Graph) -> "_Group | None":
        """The group that also computes the quantized `tensor`, or None."""
        quantize = graph.producers.get(tensor)
        if quantize is None or quantize.op != "quantize" or not _is_scalar(graph, quantize):
            return None
        larger = _Group(
            self.shape, {**self.nodes, tensor: quantize}, set(self.integers), set(self.reals)
        )
        larger.integers.remove(tensor)
        return larger if larger.reach(graph, quantize.inputs[0]) else None

    def is_requantization(self, graph: Graph) -> bool:
        """Whether a change of scale and bounds is all that it computes."""
        return all(
            node.op in ("clip", "dequantize", "quantize", "relu")
            or (node.op == "mul" and any(_is_positive(graph, name) for name in node.inputs))
            for node in self.nodes.values()
        )

    def evaluate(self, graph: Graph, tensor: str, x: QuantizedTensor) -> Array | None:
        """`tensor` for all 256 values of the only tensor that it depends on, which `x` is."""
        (source,) = self.integers | self.reals
        shape = (TABLE_ENTRIES,) + (1,) * (len(self.shape) - 1)
        values = np.arange(TABLE_ENTRIES).reshape(shape) - TABLE_ENTRIES // 2
        if source in self.reals:
            known = {source: numerics.dequantize(values, np.float32(x.scale), x.zero_point)}
        elif graph.types[source].dtype == "uint8":
            known = {source: (values + TABLE_ENTRIES // 2).astype(np.uint8)}
        else:
            known = {source: values.astype(np.int8)}
        with np.errstate(all="ignore"):
            for name in sorted(self.nodes, key=graph.positions.__getitem__):
                node = self.nodes[name]
                operands = [known[n] if n in known else graph.constant(n) for n in node.inputs]
                try:
                    known[name] = _evaluated(node, operands, shape)
                except Exception:  # the evaluator of ONNX raises many kinds; the host tells why
                    return None
        result = known[tensor]
        return result.reshape(-1) if result.size == TABLE_ENTRIES else None


def _function_groups(graph: Graph, tensor: str) -> list[_Group]:
    """`_groups`, but none if the smallest is only a change of scale and bounds."""
    found = list(_groups(graph, tensor))
    return [] if not found or found[0].is_requantization(graph) else found


def _groups(graph: Graph, tensor: str) -> Iterator[_Group]:
    """The groups that compute `tensor` from a single tensor, each larger than the one before."""
    shape = graph.types[tensor].shape
    group = _Group(shape)
    if not shape or not group.reach(graph, tensor):
        return
    while True:
        if len(group.integers) + len(group.reals) == 1:
            yield group
            if group.reals or not _is_inner(graph, group):
                return
        if not group.integers:
            return
        last = max(group.integers, key=lambda name: graph.positions.get(name, -1))
        larger = group.without(last, graph)
        if larger is None:
            return
        group = larger


def _is_inner(graph: Graph, group: _Group) -> bool:
    """Whether only the group reads the quantized tensor that it begins at."""
    (name,) = group.integers
    readers = {user.output for user in graph.users[name]}
    return name not in graph.outputs and readers <= group.nodes.keys()


def _source(context: LoweringContext, group: _Group) -> QuantizedTensor | None:
    """The int8 tensor that the group begins at."""
    if group.reals:
        (name,) = group.reals
        return context.resolve(name)
    (name,) = group.integers
    if context.graph.types[name].dtype not in _INTEGERS:
        return None
    (first, *_) = (node for node in group.nodes.values() if node.inputs[0] == name)
    return context.view(first.output)


def _is_elementwise(node: Node) -> bool:
    if node.op == FOREIGN.name:
        return node.attrs["op_type"] in ELEMENTWISE and node.attrs["output"] == 0
    return get_op(node.op).elementwise


def _is_scalar(graph: Graph, node: Node) -> bool:
    """Whether a quantize or dequantize has one scale, and integers of 8 bits."""
    scale, zero_point = (graph.constant(name) for name in node.inputs[1:])
    return scale.size == 1 and zero_point.dtype.name in _INTEGERS


def _is_positive(graph: Graph, name: str) -> bool:
    value = graph.constants.get(name)
    return value is not None and value.size == 1 and float(value.reshape(())) > 0


def _defined(reals: Array) -> Array:
    """What is quantized instead of `reals`: no NaN, which onnxruntime saturates to the lowest."""
    return np.where(np.isnan(reals), np.float32(-np.inf), reals)


def _evaluated(node: Node, arrays: list[Array], shape: tuple[int, ...]) -> Array:
    """The result of `node` for operands of 256 elements instead of the model's."""
    if node.op == "quantize":
        arrays = [_defined(arrays[0]), *arrays[1:]]
    types = [TensorType(array.shape, array.dtype.name) for array in arrays]
    attrs = dict(node.attrs)
    if node.op == FOREIGN.name:
        attrs["shape"] = shape
    return get_op(node.op).evaluate(arrays, types, attrs)
