"""The lowering rule of `lower_qdq` for functions of one quantized tensor: a table.

Any connected group of elementwise operators and numbers that depends on one quantized tensor only
is a function of 256 values, however the model writes it: ``x * sigmoid(x)``,
``0.5 * x * (1 + erf(x / sqrt(2)))``, with or without quantize and dequantize in between. The
group's own operators compute its results.
"""

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

__all__ = ["FunctionRule", "function_nodes"]

_INTEGERS = ("int8", "uint8")

_MOST_NODES = 200
"""Nodes of a group; a larger one has no table."""


class FunctionRule:
    """Lowers functions of one quantized tensor in `graph`.

    A group of nodes begins at the latest quantized tensor on which all of it depends. If only the
    group reads that one, and another group computes it, the function is of the tensor at which the
    other group begins, and so on. The values at the end of each group are computed once.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._functions: dict[str, _Function | None] = {}

    def lower(
        self, context: LoweringContext, tensor: str, q: Quantization, output: str
    ) -> str | None:
        """`tensor` by a table, if it is a function of one quantized tensor.

        Where a single requantization computes it, there is no table; if that follows a table, it
        becomes part of it in `compose_tables`. An input at which the function is not defined gives
        the lowest value, as in onnxruntime.

        Before::

            a = dequantize(x, s, z)
            b = activation(a) function=sigmoid
            c = mul(a, b)
            y = quantize(c, t, o)

        After::

            const y.table: int8[256]
            y = q_requantize_lookup(x, y.table, identity)
        """
        group = _find_group(self._graph, tensor)
        if group is None or group.is_requantization(self._graph):
            return None
        function = self._function(context, group)
        if function is None:
            return None
        reals = _defined(function.values.reshape(-1))
        table = numerics.quantize(reals, q.scale, q.zero_point, np.int8)
        table = np.clip(table, q.low, q.high).astype(np.int8)
        builder = context.builder
        name = builder.constant(builder.fresh_name(f"{output}.table"), table)
        params = context.define_params(output, IDENTITY)
        return builder.add(
            Q_REQUANTIZE_LOOKUP.name, [function.x.name, name, params], UNCHANGED, output=output
        )

    def _function(self, context: LoweringContext, group: "_Group") -> "_Function | None":
        """What `group` computes from the quantized tensor at which the first group begins."""
        groups = []
        before: _Group | None = group
        while before is not None and before.result not in self._functions:
            groups.append(before)
            before = before.previous(self._graph)
        function = None if before is None else self._functions[before.result]
        for item in reversed(groups):
            function = self._functions[item.result] = self._extended(context, item, function)
        return function

    def _extended(
        self, context: LoweringContext, group: "_Group", before: "_Function | None"
    ) -> "_Function | None":
        """What `group` computes from the values of the group before it, or of its own source."""
        graph = self._graph
        shape = (TABLE_ENTRIES,) + (1,) * (len(group.shape) - 1)
        x = _source(context, group) if before is None else before.x
        if x is None:
            return None
        if before is not None:
            quantize = graph.producers[group.source]
            nodes = {group.source: quantize, **group.nodes}
            known = {quantize.inputs[0]: before.values}
        else:
            nodes = group.nodes
            known = {group.source: _all_values(graph, group, x).reshape(shape)}
        with np.errstate(all="ignore"):
            for name in sorted(nodes, key=graph.positions.__getitem__):
                node = nodes[name]
                operands = [known[n] if n in known else graph.constant(n) for n in node.inputs]
                try:
                    known[name] = _evaluated(node, operands, shape)
                except Exception:  # the evaluator of ONNX raises many kinds; the host tells why
                    return None
        values = known[group.result]
        return _Function(x, values) if values.size == TABLE_ENTRIES else None


def function_nodes(graph: Graph) -> frozenset[str]:
    """Results of all nodes that tables would compute, if `graph` were lowered with them."""
    found = set[str]()
    ends = set[str]()
    for node in graph.nodes:
        if node.op != "quantize" or not _is_scalar(graph, node):
            continue
        group = _find_group(graph, node.inputs[0])
        if group is None or group.is_requantization(graph):
            continue
        while group is not None and not group.reals and group.result not in ends:
            ends.add(group.result)
            found |= group.nodes.keys()
            previous = group.previous(graph)
            if previous is not None and not previous.reals:
                found.add(group.source)
            group = previous
    return frozenset(found)


@dataclass(frozen=True)
class _Function:
    """The `values` of a real tensor, float32 (256, 1, ...), for all 256 of the int8 tensor `x`."""

    x: QuantizedTensor
    values: Array


@dataclass
class _Group:
    """Nodes between a tensor and the tensors that it is computed from.

    Parameters
    ----------
    result : the tensor.
    shape : of all of them.
    nodes : by output.
    integers : quantized tensors that the nodes dequantize.
    reals : other tensors that they read: of operators that choose among elements.
    """

    result: str
    shape: tuple[int, ...]
    nodes: dict[str, Node] = field(default_factory=dict)
    integers: set[str] = field(default_factory=set)
    reals: set[str] = field(default_factory=set)

    @property
    def source(self) -> str:
        """The only tensor that it is computed from."""
        (name,) = self.integers | self.reals
        return name

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

    def grow(self, graph: Graph) -> bool:
        """Add what computes the latest of the quantized tensors; False if it is no function."""
        tensor = max(self.integers, key=lambda name: graph.positions.get(name, -1), default="")
        quantize = _quantize_of(graph, tensor)
        if quantize is None:
            return False
        self.integers.remove(tensor)
        self.nodes[tensor] = quantize
        return self.reach(graph, quantize.inputs[0])

    def previous(self, graph: Graph) -> "_Group | None":
        """The group that computes the quantized tensor at which this one begins, if nothing else
        reads that."""
        if self.reals or self.source in graph.outputs:
            return None
        quantize = _quantize_of(graph, self.source)
        readers = {user.output for user in graph.users[self.source]}
        if quantize is None or not readers <= self.nodes.keys():
            return None
        return _find_group(graph, quantize.inputs[0])

    def is_requantization(self, graph: Graph) -> bool:
        """Whether a change of scale and bounds is all that it computes."""
        return all(
            node.op in ("clip", "dequantize", "quantize", "relu")
            or (node.op == "mul" and any(_is_positive(graph, name) for name in node.inputs))
            for node in self.nodes.values()
        )


def _find_group(graph: Graph, tensor: str) -> _Group | None:
    """The smallest group that computes `tensor` from a single tensor."""
    group = _Group(tensor, graph.types[tensor].shape)
    if not group.shape or not group.reach(graph, tensor):
        return None
    while len(group.integers) + len(group.reals) != 1:
        if not group.grow(graph):
            return None
    return group


def _source(context: LoweringContext, group: _Group) -> QuantizedTensor | None:
    """The int8 tensor that the group begins at."""
    if group.reals:
        return context.resolve(group.source)
    (first, *_) = (node for node in group.nodes.values() if node.inputs[0] == group.source)
    return context.view(first.output)


def _all_values(graph: Graph, group: _Group, x: QuantizedTensor) -> Array:
    """What the source of `group` is for each value of the int8 tensor `x`, in order, (256,)."""
    values = np.arange(TABLE_ENTRIES) - TABLE_ENTRIES // 2
    if group.reals:
        return numerics.dequantize(values, np.float32(x.scale), x.zero_point)
    if graph.types[group.source].dtype == "uint8":
        return (values + TABLE_ENTRIES // 2).astype(np.uint8)
    return values.astype(np.int8)


def _quantize_of(graph: Graph, tensor: str) -> Node | None:
    """The node that quantizes to `tensor` with one scale, if one does."""
    node = graph.producers.get(tensor)
    return node if node is not None and node.op == "quantize" and _is_scalar(graph, node) else None


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
