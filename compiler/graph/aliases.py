"""Which tensors of a blocked graph share memory, and at which offsets: the meaning of views.

Tensors that share memory form a *group* with fixed offsets between them. Tensors that an operator
stores, and the graph's inputs, never overlap each other, so nothing is overwritten. A view overlaps
the tensors that it is a view of.

The elements of a tensor follow each other, except those of an operand of a `columns_view`: its rows
lie as far apart as those of the joined map (`row_pitch`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.ops.append import Q_APPEND
from daedal.compiler.graph.ops.registry import get_op, ints
from daedal.compiler.graph.ops.views import COLUMNS_VIEW, ROWS_VIEW, run_of_blocks

__all__ = [
    "Aliases",
    "Operand",
    "add_view",
    "aliases_of",
    "columns",
    "joined",
    "row_pitch",
    "shares_memory",
]

Run = tuple[int, int]
"""Elements ``[begin, end)`` of a group."""

Operand = tuple[str, Run]
"""A tensor, and its run of elements within a tensor joined from several."""


@dataclass
class _Group:
    """First elements of its tensors; runs of the stored ones; whether more may be stored; tensors
    whose rows do not follow each other."""

    begins: dict[str, int]
    stored: list[Run] = field(default_factory=list)
    is_open: bool = True
    strided: set[str] = field(default_factory=set)

    def stored_at(self, shift: int) -> list[Run]:
        """The stored runs, shifted by `shift` elements."""
        return [(begin + shift, end + shift) for begin, end in self.stored]


class Aliases:
    """The groups of a graph. Its tensors are added in order of definition."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def add_input(self, name: str, size: int) -> None:
        """Add an input of `size` elements; nothing else can be stored in its group."""
        self._groups[name] = _Group({name: 0}, [(0, size)], is_open=False)

    def add_stored(self, name: str, size: int) -> None:
        """Add a tensor of `size` elements that an operator stores."""
        self._groups[name] = _Group({name: 0}, [(0, size)])

    def add_part(self, name: str, source: str, begin: int) -> None:
        """Add a view that begins at element `begin` of `source`."""
        group = self._groups[source]
        group.begins[name] = group.begins[source] + begin
        self._groups[name] = group

    def add_joined(self, name: str, operands: Sequence[Operand]) -> None:
        """Add a tensor joined from `operands`, all of which must be `fitting`."""
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
            group.strided |= other.strided

    def add_columns(self, name: str, size: int, operands: Mapping[str, int]) -> None:
        """Add a tensor of `size` elements joined from the columns of `operands`, by their first
        element in it. They are all `alone`."""
        assert all(map(self.is_alone, operands)), f"{name!r} has no place"
        group = _Group({name: 0, **operands}, [(0, size)], strided=set(operands))
        self._groups.update(dict.fromkeys(group.begins, group))

    def is_alone(self, name: str) -> bool:
        """Whether an operator stores the tensor, and it shares no bytes with another one."""
        return self.is_open(name) and len(self._groups[name].begins) == 1

    def is_dense(self, name: str) -> bool:
        """Whether the elements of a tensor follow each other."""
        return name not in self._groups or name not in self._groups[name].strided

    def fitting(self, operands: Sequence[Operand]) -> set[int]:
        """The indices of those `operands` that can be placed at their runs of a new tensor.

        Excluded are inputs, constants, a tensor that would need two places, columns of another
        tensor, and a tensor whose group would store something else where another operand has to
        be. Of two that exclude each other, the first is placed.
        """
        found: set[int] = set()
        stored: list[Run] = []
        shifts: dict[int, int] = {}
        for number, (operand, (begin, _)) in enumerate(operands):
            group = self._groups.get(operand)
            if group is None or not group.is_open or operand in group.strided:
                continue
            shift = begin - group.begins[operand]
            if id(group) not in shifts:
                moved = group.stored_at(shift)
                # An operand of the same group at the right offset is no conflict.
                others = [
                    run
                    for name, run in operands
                    if name in group.strided or group.begins.get(name) != run[0] - shift
                ]
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
        """For every tensor that shares memory, its group's name and its first element in it."""
        found = {}
        for group in {id(group): group for group in self._groups.values()}.values():
            if len(group.begins) > 1:
                low = min(group.begins.values())
                root = next(iter(group.begins))
                found.update({name: (root, begin - low) for name, begin in group.begins.items()})
        return found


def aliases_of(graph: Graph) -> Mapping[str, tuple[str, int]]:
    """For every tensor that shares memory, the name of its group and its first element in it."""
    aliases = Aliases()
    for name in graph.inputs:
        aliases.add_input(name, math.prod(graph.types[name].physical_shape))
    for node in graph.nodes:
        if shares_memory(node):
            add_view(aliases, graph, node)
        else:
            aliases.add_stored(node.output, math.prod(graph.types[node.output].physical_shape))
    for name in graph.outputs:
        assert aliases.is_open(name), f"output {name!r} lies in an input"
    return aliases.places()


def shares_memory(node: Node) -> bool:
    """Whether the result of `node` lies in its operands: views, and what stores rows in a state."""
    return get_op(node.op).is_view or node.op == Q_APPEND.name


def add_view(aliases: Aliases, graph: Graph, node: Node) -> None:
    """Add what an operator defines that `shares_memory`."""
    if node.op == Q_APPEND.name:
        aliases.add_part(node.output, node.inputs[0], 0)
        return
    if node.op in ("concat_view", ROWS_VIEW.name):
        aliases.add_joined(node.output, joined(graph, node.inputs))
        return
    if node.op == COLUMNS_VIEW.name:
        size = math.prod(graph.types[node.output].physical_shape)
        aliases.add_columns(node.output, size, columns(graph, node.inputs))
        return
    begin = 0
    if node.op == "slice_view":
        x = graph.types[node.inputs[0]]
        run = run_of_blocks(x, ints(node.attrs, "begins"), ints(node.attrs, "ends"))
        assert run is not None, f"{node} is no view"
        begin, _ = run
    aliases.add_part(node.output, node.inputs[0], begin)


def joined(graph: Graph | GraphBuilder, names: Sequence[str]) -> list[Operand]:
    """The tensors concatenated, each with its run of elements."""
    operands, end = [], 0
    for name in names:
        begin, end = end, end + math.prod(graph.types[name].physical_shape)
        operands.append((name, (begin, end)))
    return operands


def columns(graph: Graph | GraphBuilder, names: Sequence[str]) -> dict[str, int]:
    """The maps whose columns are joined, each with its first element in the result."""
    found, end = {}, 0
    for name in names:
        shape = graph.types[name].physical_shape
        begin, end = end, end + math.prod(shape[MAP_RANK - 1 :])
        found[name] = begin
    return found


def row_pitch(graph: Graph, name: str) -> int:
    """Columns in memory from one row of a map to the next, if it lies in a map of more columns;
    else 0."""
    for user in graph.users[name]:
        if user.op == COLUMNS_VIEW.name:
            return graph.types[user.output].shape[MAP_RANK - 1]
    return 0


def _meet(some: Sequence[Run], others: Sequence[Run]) -> bool:
    return any(a < d and c < b for a, b in some for c, d in others)
