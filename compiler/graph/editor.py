"""Adds nodes and constants to a graph, inferring the type of every result."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from daedal.common.errors import ModelError, UnsupportedError
from daedal.compiler.graph.graph import Array, Attrs, AttrValue, Graph, Node, View
from daedal.compiler.graph.ops.registry import SAME_ORDER, get_op, ints
from daedal.compiler.graph.types import TensorType
from daedal.isa.tensor import Box

__all__ = ["GraphEditor"]


class GraphEditor(ABC):
    """What `GraphBuilder`, which makes a new graph, and `Rewriter`, which changes one, share.

    Parameters
    ----------
    source : the old graph.
    taken : names that `fresh_name` must not give, in addition to those of `source`.
    """

    def __init__(self, source: Graph | None = None, taken: Collection[str] = ()) -> None:
        self._source = source
        self._taken = frozenset(taken)
        if source is not None:
            self._taken = source.names | self._taken if self._taken else source.names
        self._constants: dict[str, Array] = {}
        self._old_views = source.known_views if source else frozenset[View]()
        self._new_views: dict[View, None] = {}
        self.types: dict[str, TensorType] = {}

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
        self._append(node)
        if op in SAME_ORDER or op == "transpose":
            shape = self.types[node.inputs[0]].shape
            order = ints(values, "order") if op == "transpose" else tuple(range(len(shape)))
            self._add_view(View(node.inputs[0], output, shape, order))
        return output

    def add_fresh(
        self,
        op: str,
        inputs: Sequence[str],
        attrs: Attrs | None = None,
        *,
        base: str,
        name: str = "",
    ) -> str:
        """`add` with a new name made from `base` for the output."""
        return self.add(op, inputs, attrs, output=self.fresh_name(base), name=name)

    def fresh_constant(self, base: str, array: Array, type_: TensorType | None = None) -> str:
        """Define a constant under a new name made from `base`; without `type_` it is plain and has
        the dtype of its array."""
        return self._define_constant(self.fresh_name(base), array, type_)

    def remember_same(self, source: str, target: str) -> None:
        """Note that two tensors have the same elements in the same order."""
        shape = self.types[source].shape
        self.remember_moved(source, target, shape, range(len(shape)))

    def remember_moved(
        self, source: str, target: str, shape: Sequence[int], order: Sequence[int]
    ) -> None:
        """Note that `target` has the elements of `source`, seen in `shape` and transposed."""
        self._add_view(View(source, target, tuple(shape), tuple(order)))

    def remember_part(self, source: str, target: str, shape: Sequence[int], box: Box) -> None:
        """Note that `target` is a part of `source`, seen in this shape; one may be gone."""
        order = tuple(range(len(shape)))
        self._add_view(View(source, target, tuple(shape), order, box))

    def mark(self) -> tuple[int, int]:
        """The current position, for `rewind`."""
        return len(self.types), len(self._new_views)

    def rewind(self, mark: tuple[int, int]) -> None:
        """Forget the nodes and tensors that were added after `mark`."""
        num_tensors, num_views = mark
        while len(self._new_views) > num_views:
            self._new_views.popitem()
        while len(self.types) > num_tensors:
            name, _ = self.types.popitem()
            self._constants.pop(name, None)
            self._forget(name)

    def fresh_name(self, base: str) -> str:
        """`base`, or `base` with the first number that makes the name unused in this graph, in
        earlier graphs and in the model."""
        candidate, count = base, 0
        while candidate in self.types or candidate in self._taken:
            count += 1
            candidate = f"{base}_{count}"
        return candidate

    def _add_view(self, view: View) -> None:
        if view not in self._old_views:
            self._new_views[view] = None

    def _views(self) -> tuple[View, ...]:
        old = self._source.views if self._source else ()
        return (*old, *self._new_views) if self._new_views else old

    def _define_constant(self, name: str, array: Array, type_: TensorType | None) -> str:
        value = np.array(array, order="C")
        resolved = TensorType(value.shape, value.dtype.name) if type_ is None else type_
        assert resolved.physical_shape == value.shape, f"constant {name!r} has the wrong shape"
        self._define(name, resolved)
        self._constants[name] = value
        return name

    def _define(self, name: str, type_: TensorType) -> None:
        if name in self.types:
            raise ModelError(
                f"every tensor must be defined once, but {name!r} is defined again; "
                "rename one of the two in the model"
            )
        self.types[name] = type_

    @abstractmethod
    def _append(self, node: Node) -> None:
        """Take a new node, whose operands and result are defined."""

    @abstractmethod
    def _adopt(self, name: str) -> None:
        """Make sure that a tensor that is read is defined."""

    @abstractmethod
    def _forget(self, name: str) -> None:
        """Take back the newest tensor and its node, if a node computes it."""
