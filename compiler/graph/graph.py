"""The graph: a typed program in static single assignment form, one operator per node.

Invariants (checked by `verifier.verify`): every tensor is defined once, as an input, a constant or
the output of one node; nodes come after what they read; every tensor has a type.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from daedal.compiler.graph.types import TensorType
from daedal.isa.tensor import Box

__all__ = ["Array", "AttrValue", "Attrs", "Graph", "Node", "Outside", "View"]

Array = npt.NDArray[Any]
AttrValue = int | float | str | bytes | tuple[int, ...]
Attrs = Mapping[str, AttrValue]


@dataclass(frozen=True)
class Node:
    """One application of operator `op`: tensor names in, tensor names out.

    `note` says why the host runs it, if known.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Attrs = field(default_factory=dict)
    name: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "attrs", MappingProxyType(dict(self.attrs)))

    @property
    def output(self) -> str:
        """The output of a node that has only one."""
        assert len(self.outputs) == 1, f"{self.op} has {len(self.outputs)} outputs"
        return self.outputs[0]

    def __str__(self) -> str:
        return f"node {self.name or self.outputs[0]!r}, operator {self.op}"


@dataclass(frozen=True)
class View:
    """A tensor with elements of another one.

    Parameters
    ----------
    source, target : names of the tensors.
    shape : to which `source` is reshaped.
    order : of the axes of `shape` in `target`, which is reshaped after that.
    box : of the array in this order, if `target` has not all of it.
    """

    source: str
    target: str
    shape: tuple[int, ...]
    order: tuple[int, ...]
    box: Box = ()


@dataclass(frozen=True)
class Outside:
    """What a graph lacks of the model that it was imported from: tensors of types and shapes that
    it cannot have, and all that depends on them.

    Attributes
    ----------
    reasons : why, by tensor.
    nodes : those that compute them, after the graph's own; `inputs` are tensors of either, and the
        attribute `proto` is the node of the model.
    constants : those that `nodes` read, or that are outputs of the model.
    opsets : versions of the model's operator sets, by domain.
    """

    reasons: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()
    constants: Mapping[str, onnx.TensorProto] = field(default_factory=dict)
    opsets: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Graph:
    """Nodes in topological order, with constants and types by tensor name.

    Passes never change a graph; they build a new one (`GraphBuilder`). Constants are read-only
    arrays in the physical shape of their type.

    `taken` are the names that no pass may give to a new tensor: those of the model, and of every
    graph from which this one was derived. A name means the same values in all of them. `views` are
    the views of all of them, those included that a pass made and removed again. `outside` is
    what it cannot have of the model.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    types: Mapping[str, TensorType]
    taken: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    views: tuple[View, ...] = field(default=(), compare=False, repr=False)
    outside: Outside = field(default_factory=Outside, compare=False, repr=False)

    def __post_init__(self) -> None:
        for array in self.constants.values():
            array.flags.writeable = False
        object.__setattr__(self, "constants", MappingProxyType(dict(self.constants)))
        object.__setattr__(self, "types", MappingProxyType(dict(self.types)))

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """The node that defines each tensor; inputs and constants are not in it."""
        return {name: node for node in self.nodes for name in node.outputs}

    @cached_property
    def users(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read each tensor, in order, once each."""
        found: dict[str, list[Node]] = {name: [] for name in self.types}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found[name].append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """For each computed tensor, the number of its node in the order of `nodes`."""
        return {name: number for number, node in enumerate(self.nodes) for name in node.outputs}

    @cached_property
    def names(self) -> frozenset[str]:
        """What no new tensor may be called: `taken`, and the names of all tensors."""
        return self.taken | self.types.keys()

    @cached_property
    def known_views(self) -> frozenset[View]:
        """`views` as a set."""
        return frozenset(self.views)

    def constant(self, name: str) -> Array:
        """Value of a constant, in the physical shape of its type."""
        return np.asarray(self.constants[name])

    def is_constant(self, name: str) -> bool:
        """Whether the tensor is a constant."""
        return name in self.constants

    def __str__(self) -> str:
        from daedal.compiler.graph.printer import print_graph

        return print_graph(self)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """What notebooks show: the text."""
        printer.text(str(self))
