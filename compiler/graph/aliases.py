"""Which tensors of a blocked graph lie in the bytes of others, and where: what views mean.

Tensors that lie in one another form a *group* at fixed distances. Those that some operator stores
(and the graph's inputs) never share a byte with each other, so nothing is ever overwritten; views
share theirs with what they are views of.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import get_op, ints
from daedal.compiler.graph.ops.views import run_of_blocks

__all__ = ["Aliases", "Operand", "add_view", "aliases_of", "joined"]

Run = tuple[int, int]
"""Elements ``[begin, end)`` of a group."""

Operand = tuple[str, Run]
"""A tensor, and where it would lie in one that consists of several."""


@dataclass
class _Group:
    """First elements of its tensors; runs of those that are stored; whether more may be."""

    begins: dict[str, int]
    stored: list[Run] = field(default_factory=list)
    is_open: bool = True

    def stored_at(self, shift: int) -> list[Run]:
        """What is stored, `shift` elements further."""
        return [(begin + shift, end + shift) for begin, end in self.stored]


class Aliases:
    """The groups of a graph whose tensors are added in order of definition."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def add_input(self, name: str, size: int) -> None:
        """A tensor of `size` elements from outside: nothing else can be stored in its group."""
        self._groups[name] = _Group({name: 0}, [(0, size)], is_open=False)

    def add_stored(self, name: str, size: int) -> None:
        """A tensor of `size` elements that an operator stores."""
        self._groups[name] = _Group({name: 0}, [(0, size)])

    def add_part(self, name: str, source: str, begin: int) -> None:
        """A tensor that is a run of `source` from element `begin` on."""
        group = self._groups[source]
        group.begins[name] = group.begins[source] + begin
        self._groups[name] = group

    def add_joined(self, name: str, operands: Sequence[Operand]) -> None:
        """A tensor that consists of `operands`, all of which fit."""
        assert self.fitting(operands) == set(range(len(operands))), f"{name!r} has no place"
        group = self._groups[name] = _Group({name: 0})
        for operand, (begin, _) in operands:
            other = self._groups[operand]
            if other is group:
                continue
            shift = begin - other.begins[operand]
            group.stored += other.stored_at(shift)
            for member, first in other.begins.items():
                group.begins[member] = first + shift
                self._groups[member] = group

    def fitting(self, operands: Sequence[Operand]) -> set[int]:
        """Which of `operands`, by number, can lie at their runs of a tensor that is new.

        All can but for inputs, constants, a tensor that would have to lie in two places, and one
        with whose group something else would be stored where another operand has to lie. Where two
        exclude each other, the first is taken.
        """
        found: set[int] = set()
        stored: list[Run] = []
        shifts: dict[int, int] = {}
        for number, (operand, (begin, _)) in enumerate(operands):
            group = self._groups.get(operand)
            if group is None or not group.is_open:
                continue
            shift = begin - group.begins[operand]
            if id(group) not in shifts:
                moved = group.stored_at(shift)
                # What is of the group and keeps its distance lies there anyway.
                others = [run for name, run in operands if group.begins.get(name) != run[0] - shift]
                if _meet(moved, stored) or _meet(moved, others):
                    continue
                shifts[id(group)] = shift
                stored += moved
            if shifts[id(group)] == shift:
                found.add(number)
        return found

    def is_open(self, name: str) -> bool:
        """Whether the tensor shares no bytes with an input or a constant."""
        return name in self._groups and self._groups[name].is_open

    def places(self) -> dict[str, tuple[str, int]]:
        """For every tensor that shares bytes, the name of its group and its first element."""
        found = {}
        for group in {id(group): group for group in self._groups.values()}.values():
            if len(group.begins) > 1:
                low = min(group.begins.values())
                root = next(iter(group.begins))
                found.update({name: (root, begin - low) for name, begin in group.begins.items()})
        return found


def aliases_of(graph: Graph) -> Mapping[str, tuple[str, int]]:
    """The name of the group, and the first element in it, of every tensor that shares bytes."""
    aliases = Aliases()
    for name in graph.inputs:
        aliases.add_input(name, math.prod(graph.types[name].physical_shape))
    for node in graph.nodes:
        if get_op(node.op).is_view:
            add_view(aliases, graph, node)
        else:
            aliases.add_stored(node.output, math.prod(graph.types[node.output].physical_shape))
    for name in graph.outputs:
        assert aliases.is_open(name), f"output {name!r} lies in an input"
    return aliases.places()


def add_view(aliases: Aliases, graph: Graph, node: Node) -> None:
    """Add what a view operator defines."""
    if node.op == "concat_view":
        aliases.add_joined(node.output, joined(graph, node.inputs))
        return
    begin = 0
    if node.op == "slice_view":
        x = graph.types[node.inputs[0]]
        run = run_of_blocks(x, ints(node.attrs, "begins"), ints(node.attrs, "ends"))
        assert run is not None, f"{node} is no view"
        begin, _ = run
    aliases.add_part(node.output, node.inputs[0], begin)


def joined(graph: Graph, names: Sequence[str]) -> list[Operand]:
    """Tensors one behind the other."""
    operands, end = [], 0
    for name in names:
        begin, end = end, end + math.prod(graph.types[name].physical_shape)
        operands.append((name, (begin, end)))
    return operands


def _meet(some: Sequence[Run], others: Sequence[Run]) -> bool:
    return any(a < d and c < b for a, b in some for c, d in others)
