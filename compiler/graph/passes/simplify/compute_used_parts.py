"""Computes only those parts of tensors that are read."""

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from daedal.compiler.graph.boxes import (
    box_shape,
    box_size,
    joined,
    operand_boxes,
    whole_box,
    within,
)
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Attrs, Graph, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED, UNCHANGED_WIDE, is_wide
from daedal.compiler.graph.ops.integer_elementwise import ELEMENTWISE
from daedal.compiler.graph.ops.registry import ints, runs_on
from daedal.compiler.graph.passes.value_ranges import copies_elements
from daedal.compiler.graph.views import VIEWS, source_of
from daedal.compiler.targets.names import ACCELERATOR
from daedal.isa.tensor import Box

__all__ = ["compute_used_parts"]

_SUFFIX = "part"
_FEWER = 2
"""A part is computed alone if the tensor has so many times its elements: to cut it out of another
one takes time, too."""
_FOLLOWING = (*VIEWS, *ELEMENTWISE, "q_concat")
"""Operators that become a part of the layer that computes an operand, or of none; so they compute a
part only where that layer does."""


def compute_used_parts(graph: Graph) -> Graph:
    """Let every operator compute no more than its readers take. Exact.

    Slices move before operators that compute each place of their result from the same place of an
    operand: elementwise ones, convolutions of single pixels, norms, attention (its queries). So a
    transformer whose head reads one token computes the last layer for this token alone, but for
    its keys and values.

    Before::

        x = q_layer_norm(h, g) ...          # int8[1,64,50,1]
        y = q_slice(x, p) begins=0,0,0,0 ends=1,64,1,1 steps=1,1,1,1 ...

    After::

        h.part = q_slice(h, q) begins=0,0,0,0 ends=1,64,1,1 steps=1,1,1,1 ...
        y = reshape(q_layer_norm(h.part, g))
    """
    return _Rewrite(graph).run()


@dataclass(frozen=True)
class _Reading:
    """The part of its result that a node computes, and those of its operands that it reads."""

    part: Box
    operands: dict[str, Box]


class _Used:
    """Which part of each tensor is used, found from the results to the inputs.

    Attributes
    ----------
    readings : of each node that computes anything, by its result.
    computed : the part of each tensor that exists, where that is not all of it.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.readings: dict[str, _Reading] = {}
        self.computed: dict[str, Box] = {}
        needs: dict[str, list[Box]] = defaultdict(list)
        for name in graph.outputs:
            needs[name].append(self.whole(name))
        for node in reversed(graph.nodes):
            if needs[node.output]:
                self._read(node, needs)
        for node in graph.nodes:
            if node.op in _FOLLOWING and not self.computed.keys() & set(node.inputs):
                self._restore(node)

    def whole(self, name: str) -> Box:
        """All of a tensor."""
        return whole_box(self._graph.types[name].shape)

    def available(self, name: str) -> Box:
        """The part of a tensor that exists."""
        return self.computed.get(name, self.whole(name))

    def _read(self, node: Node, needs: dict[str, list[Box]]) -> None:
        reading = self._reading(node, needs[node.output])
        for name, part in reading.operands.items():
            needs[name].append(part)
        self.readings[node.output] = reading
        if reading.part != self.whole(node.output):
            self.computed[node.output] = reading.part

    def _restore(self, node: Node) -> None:
        """Compute all of a result."""
        if self.computed.pop(node.output, None) is not None:
            every = {name: self.whole(name) for name in node.inputs}
            self.readings[node.output] = _Reading(self.whole(node.output), every)

    def _reading(self, node: Node, wanted: list[Box]) -> _Reading:
        every = {name: self.whole(name) for name in node.inputs}
        total = self.whole(node.output)
        part = wanted[0]
        for other in wanted[1:]:
            part = joined(part, other)
        if not self._is_integer(node):
            return _Reading(total, every)
        if _FEWER * box_size(part) > box_size(total):
            part = total
        part, operands = operand_boxes(self._graph, node, part)
        if _FEWER * box_size(part) > box_size(total) and part != total:
            part, operands = operand_boxes(self._graph, node, total)
        if all(self._can_cut(name, piece) for name, piece in operands.items()):
            return _Reading(part, {**every, **operands})
        return _Reading(total, every)

    def _is_integer(self, node: Node) -> bool:
        kinds = {self._graph.types[name].dtype for name in (node.output, *node.inputs[:1])}
        known = node.op in VIEWS or runs_on(node.op, ACCELERATOR)
        return known and kinds <= {"int8", "int16"}

    def _can_cut(self, name: str, part: Box) -> bool:
        """Whether a `q_slice` can take `part`, if all of the tensor is computed."""
        whole = self.whole(name)
        cut = [axis for axis, kept in enumerate(part) if kept != whole[axis]]
        if self._graph.is_constant(name):
            return True
        return len(cut) <= 1 or (len(part) == MAP_RANK and cut[0] > 0)


class _Rewrite:
    """Builds the graph that computes what `_Used` has found."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._used = _Used(graph)
        self._builder = GraphBuilder(graph.name, graph)
        self._names: dict[tuple[str, Box], str] = {}

    def run(self) -> Graph:
        if not self._used.computed:
            return self._graph
        self._builder.copy_inputs()
        for node in self._graph.nodes:
            reading = self._used.readings.get(node.output)
            if reading is not None:
                self._add(node, reading)
        return self._builder.finish(self._graph.outputs)

    def _add(self, node: Node, reading: _Reading) -> None:
        output = self._named(node.output, reading.part)
        if node.op == "q_slice":
            self._add_slice(node, reading.operands[node.inputs[0]], output)
            return
        operands = [self._operand(name, reading.operands[name]) for name in node.inputs]
        attrs: Attrs = node.attrs
        if node.op == "reshape" and output != node.output:
            attrs = {**attrs, "shape": box_shape(reading.part)}
        self._builder.add(node.op, operands, attrs, output=output, name=node.name, note=node.note)

    def _operand(self, name: str, part: Box) -> str:
        """The tensor with `part` of `name`."""
        alone = self._named(name, part)
        if self._builder.is_defined(alone) or alone == name:
            return alone
        if self._graph.is_constant(name):
            value = self._graph.constant(name)[tuple(slice(*axis) for axis in part)]
            return self._builder.constant(alone, value)
        source, known = self._source(name)
        return self._cut(source, within(part, known), alone)

    def _source(self, name: str) -> tuple[str, Box]:
        """The tensor that has what is computed of `name`, and which part that is."""
        known = self._used.available(name)
        return self._named(name, known), known

    def _named(self, name: str, part: Box) -> str:
        """The name of a part of a tensor; what asks first defines it."""
        if part == self._used.whole(name):
            return name
        if (name, part) not in self._names:
            alone = self._builder.fresh_name(f"{name}.{_SUFFIX}")
            self._builder.remember_part(name, alone, self._graph.types[name].shape, part)
            self._names[name, part] = alone
        return self._names[name, part]

    def _cut(self, name: str, part: Box, output: str) -> str:
        """Add ``output``: `part` of the tensor `name`."""
        kind = self._builder.types[name]
        axes = [axis for axis, kept in enumerate(part) if kept != (0, kind.shape[axis])]
        if axes == [1] and is_wide(kind) and not self._is_accelerated(name):
            return self._cut_rows(name, part, output)
        if len(part) == MAP_RANK and 0 not in axes:
            return self._add_cut(name, part, output)
        (axis,) = axes
        size = int(np.prod(kind.shape[:axis]))
        shape = (1, size, kind.shape[axis], int(np.prod(kind.shape[axis + 1 :])))
        view = self._builder.add_fresh("reshape", [name], {"shape": shape}, base=f"{output}.view")
        cut = self._builder.fresh_name(f"{output}.cut")
        self._add_cut(view, ((0, 1), (0, size), part[axis], (0, shape[3])), cut)
        return self._builder.add("reshape", [cut], {"shape": box_shape(part)}, output=output)

    def _cut_rows(self, name: str, part: Box, output: str) -> str:
        """Cut tokens out of what the host gives, as rows of a map: lanes of 16 bits cannot move."""
        images, tokens, *rest = self._builder.types[name].shape
        width, kept = math.prod(rest), box_shape(part)
        shape = (images, tokens, width)
        rows = self._builder.add_fresh("reshape", [name], {"shape": shape}, base=f"{output}.rows")
        turned = self._turned(rows, f"{output}.turned")
        view = {"shape": (images, width, tokens, 1)}
        view_of = self._builder.add_fresh("reshape", [turned], view, base=f"{output}.view")
        cut = self._builder.fresh_name(f"{output}.cut")
        self._add_cut(view_of, ((0, images), (0, width), part[1], (0, 1)), cut)
        flat = {"shape": (images, width, kept[1])}
        columns = self._builder.add_fresh("reshape", [cut], flat, base=f"{output}.columns")
        back = self._turned(columns, f"{output}.back")
        return self._builder.add("reshape", [back], {"shape": kept}, output=output)

    def _turned(self, name: str, base: str) -> str:
        return self._builder.add_fresh("transpose", [name], {"order": (0, 2, 1)}, base=base)

    def _is_accelerated(self, name: str) -> bool:
        """Whether an integer operator computes what a tensor is a view of."""
        producer = self._builder.producer(source_of(self._builder, name)[0])
        return producer is not None and runs_on(producer.op, ACCELERATOR)

    def _add_cut(self, name: str, part: Box, output: str) -> str:
        kept = UNCHANGED_WIDE if is_wide(self._builder.types[name]) else UNCHANGED
        params = self._builder.fresh_constant(f"{output}.params", IDENTITY)
        begins, ends = (tuple(axis[k] for axis in part) for k in (0, 1))
        attrs: Attrs = {"begins": begins, "ends": ends, "steps": (1,) * len(part), **kept}
        return self._builder.add("q_slice", [name, params], attrs, output=output)

    def _add_slice(self, node: Node, part: Box, output: str) -> None:
        """Add a slice of what there is of its operand."""
        source, known = self._source(node.inputs[0])
        begins, ends = (tuple(axis[k] for axis in within(part, known)) for k in (0, 1))
        steps = ints(node.attrs, "steps")
        if part == known and set(steps) == {1} and copies_elements(self._graph, node):
            self._builder.add(
                "reshape", [source], {"shape": box_shape(part)}, output=output, name=node.name
            )
            return
        attrs: Attrs = {**node.attrs, "begins": begins, "ends": ends}
        self._builder.add(
            node.op, [source, node.inputs[1]], attrs, output=output, name=node.name, note=node.note
        )
