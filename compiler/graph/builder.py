"""Builds graphs node by node, inferring the type of every output as it is added."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from daedal.common.errors import ModelError, UnsupportedError
from daedal.compiler.graph.graph import Array, Attrs, AttrValue, Graph, Node, View
from daedal.compiler.graph.ops.registry import SAME_ORDER, get_op, ints
from daedal.compiler.graph.types import TensorType
from daedal.isa.tensor import Box

__all__ = ["GraphBuilder"]


class GraphBuilder:
    """Collects inputs, constants and nodes; `finish` gives the graph.

    Passes rebuild a graph by walking the old one in order: `copy_inputs`, then `add` or
    `copy_node`. Constants of the old graph come along when a node first reads them.

    Parameters
    ----------
    source : the old graph.
    taken : names that `fresh_name` must not give, in addition to those of `source`.
    """

    def __init__(self, name: str, source: Graph | None = None, taken: Collection[str] = ()) -> None:
        self._name = name
        self._source = source
        self._taken = frozenset(taken)
        if source is not None:
            self._taken = source.names | self._taken if self._taken else source.names
        self._inputs: list[str] = []
        self._nodes: list[Node] = []
        self._constants: dict[str, Array] = {}
        self._old_views = source.known_views if source else frozenset[View]()
        self._new_views: dict[View, None] = {}
        self.types: dict[str, TensorType] = {}

    def copy_inputs(self) -> None:
        """Declare every input of the source graph."""
        assert self._source is not None
        for name in self._source.inputs:
            self.input(name, self._source.types[name])

    def copy_node(self, node: Node, inputs: Sequence[str] | None = None) -> str:
        """Add a node of the source graph again, reading `inputs` instead where given."""
        operands = node.inputs if inputs is None else tuple(inputs)
        if self._is_unchanged(node, operands):
            assert self._source is not None
            self._define(node.output, self._source.types[node.output])
            self._nodes.append(node)
            return node.output
        return self.add(
            node.op, operands, node.attrs, output=node.output, name=node.name, note=node.note
        )

    def _is_unchanged(self, node: Node, operands: tuple[str, ...]) -> bool:
        """Whether `node` is one of the source and its operands are the same: so is its result."""
        source = self._source
        if (
            source is None
            or operands != node.inputs
            or source.producers.get(node.output) is not node
        ):
            return False
        for name in operands:
            self._adopt(name)
        return all(self.types[name] == source.types[name] for name in operands)

    def input(self, name: str, type_: TensorType) -> str:
        """Declare a graph input."""
        self._define(name, type_)
        self._inputs.append(name)
        return name

    def constant(self, name: str, array: Array, type_: TensorType | None = None) -> str:
        """Define a constant; without `type_` it is plain and has the dtype of its array."""
        value = np.array(array, order="C")
        resolved = TensorType(value.shape, value.dtype.name) if type_ is None else type_
        assert resolved.physical_shape == value.shape, f"constant {name!r} has the wrong shape"
        self._define(name, resolved)
        self._constants[name] = value
        return name

    def add(
        self,
        op: str,
        inputs: Sequence[str],
        attrs: Attrs | None = None,
        *,
        output: str,
        name: str = "",
        note: str = "",
    ) -> str:
        """Append a node with one output and return the output's name.

        Raises
        ------
        ModelError
            If the operator refuses its operands; the message names node and operator. It is an
            UnsupportedError where ONNX allows them.
        """
        definition = get_op(op)
        values: Mapping[str, AttrValue] = {} if attrs is None else attrs
        node = Node(op, tuple(inputs), (output,), values, name or output, note)
        for operand in node.inputs:
            self._adopt(operand)
        operand_types = [self.types[operand] for operand in node.inputs]
        definition.check(operand_types, node.attrs)
        try:
            result = definition.infer(operand_types, node.attrs)
        except UnsupportedError as error:
            raise UnsupportedError(f"{error} ({node})", output) from error
        except ModelError as error:
            raise ModelError(f"{error} ({node})") from error
        self._define(output, result)
        self._nodes.append(node)
        if op in SAME_ORDER or op == "transpose":
            shape = self.types[node.inputs[0]].shape
            order = ints(values, "order") if op == "transpose" else tuple(range(len(shape)))
            self._add_view(View(node.inputs[0], output, shape, order))
        return output

    def remember_same(self, source: str, target: str) -> None:
        """Note that two tensors have the same elements in the same order."""
        shape = self.types[source].shape
        self._add_view(View(source, target, shape, tuple(range(len(shape)))))

    def remember_part(self, source: str, target: str, shape: Sequence[int], box: Box) -> None:
        """Note that `target` is a part of `source`, seen in this shape; one may be gone."""
        order = tuple(range(len(shape)))
        self._add_view(View(source, target, tuple(shape), order, box))

    def mark(self) -> tuple[int, int, int]:
        """The current position, for `rewind`."""
        return len(self._nodes), len(self.types), len(self._new_views)

    def rewind(self, mark: tuple[int, int, int]) -> None:
        """Forget the nodes and tensors that were added after `mark`."""
        num_nodes, num_tensors, num_views = mark
        del self._nodes[num_nodes:]
        while len(self._new_views) > num_views:
            self._new_views.popitem()
        while len(self.types) > num_tensors:
            name, _ = self.types.popitem()
            self._constants.pop(name, None)

    def is_defined(self, name: str) -> bool:
        """Whether a tensor of that name exists already."""
        return name in self.types

    def value(self, name: str) -> Array | None:
        """The array of a constant, or None for any other tensor."""
        return self._constants.get(name)

    def producer(self, name: str) -> Node | None:
        """The node that computes a tensor, if one does."""
        return next((node for node in reversed(self._nodes) if name in node.outputs), None)

    def is_computed(self, name: str) -> bool:
        """Whether a tensor depends on an input of the graph."""
        needed = {name}
        for node in reversed(self._nodes):
            if not needed.isdisjoint(node.outputs):
                needed.update(node.inputs)
        return not needed.isdisjoint(self._inputs)

    def fresh_name(self, base: str) -> str:
        """`base`, or `base` with the first number that makes the name unused in this graph, in
        earlier graphs and in the model."""
        candidate, count = base, 0
        while candidate in self.types or candidate in self._taken:
            count += 1
            candidate = f"{base}_{count}"
        return candidate

    def finish(self, outputs: Sequence[str]) -> Graph:
        """The graph with these outputs; constants that no node reads are left out."""
        for name in outputs:
            self._adopt(name)
        used = {name for node in self._nodes for name in node.inputs} | set(outputs)
        constants = {name: array for name, array in self._constants.items() if name in used}
        dropped = self._constants.keys() - constants.keys()
        types = {name: type_ for name, type_ in self.types.items() if name not in dropped}
        return Graph(
            self._name,
            tuple(self._inputs),
            tuple(outputs),
            tuple(self._nodes),
            constants,
            types,
            self._taken,
            self._views(),
        )

    def _add_view(self, view: View) -> None:
        if view not in self._old_views:
            self._new_views[view] = None

    def _views(self) -> tuple[View, ...]:
        old = self._source.views if self._source else ()
        return (*old, *self._new_views) if self._new_views else old

    def _define(self, name: str, type_: TensorType) -> None:
        if name in self.types:
            raise ModelError(
                f"every tensor must be defined once, but {name!r} is defined again; "
                "rename one of the two in the model"
            )
        self.types[name] = type_

    def _adopt(self, name: str) -> None:
        """Take a constant over from the source graph on first use."""
        if name in self.types:
            return
        assert self._source is not None and name in self._source.constants, (
            f"tensor {name!r} is read before it is defined"
        )
        self._constants[name] = np.asarray(self._source.constants[name])
        self.types[name] = self._source.types[name]
