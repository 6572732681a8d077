"""Reads the edges of a graph: who computes a tensor, and who reads it."""

from collections.abc import Collection, Mapping
from typing import Protocol

from daedal.compiler.graph.graph import Array, Node
from daedal.compiler.graph.ops.registry import runs_on
from daedal.compiler.graph.types import TensorType
from daedal.compiler.targets.names import ACCELERATOR

__all__ = [
    "Dataflow",
    "first_behind",
    "is_accelerated",
    "is_read_once",
    "producer_of",
    "sole_producer",
]


class Dataflow(Protocol):
    """What a `Graph` and a `Rewriter` say alike. See `Graph` for what the members mean."""

    @property
    def outputs(self) -> tuple[str, ...]: ...

    @property
    def types(self) -> Mapping[str, TensorType]: ...

    @property
    def producers(self) -> Mapping[str, Node]: ...

    @property
    def users(self) -> Mapping[str, tuple[Node, ...]]: ...

    def constant(self, name: str) -> Array: ...

    def is_constant(self, name: str) -> bool: ...


def is_read_once(graph: Dataflow, name: str) -> bool:
    """Whether one node reads the tensor, and it is no output of the graph."""
    return len(graph.users[name]) == 1 and name not in graph.outputs


def is_accelerated(graph: Dataflow, name: str) -> bool:
    """Whether the accelerator can compute the tensor."""
    node = graph.producers.get(name)
    return node is not None and runs_on(node.op, ACCELERATOR)


def producer_of(graph: Dataflow, name: str, ops: Collection[str]) -> Node | None:
    """The node that computes a tensor, if its operator is one of `ops`."""
    node = graph.producers.get(name)
    return node if node is not None and node.op in ops else None


def sole_producer(graph: Dataflow, name: str, ops: Collection[str]) -> Node | None:
    """`producer_of` a tensor that `is_read_once`: a node that can become part of its reader."""
    return producer_of(graph, name, ops) if is_read_once(graph, name) else None


def first_behind(graph: Dataflow, name: str, ops: Collection[str]) -> str:
    """The tensor at the start of the chain of nodes with `ops` that leads to `name` through first
    operands."""
    while (node := producer_of(graph, name, ops)) is not None:
        name = node.inputs[0]
    return name
