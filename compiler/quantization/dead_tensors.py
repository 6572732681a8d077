"""Gives tensors that are 0 in all samples a range: a dead ReLU, ``x - x``.

Any scale represents them; theirs must fit the layers around them, as the compiler bounds how much
larger an accumulator's step may be than that of a result.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.quantization.calibration.ranges import Range
from daedal.compiler.quantization.operators import BOUNDS, PRODUCTS
from daedal.compiler.quantization.plan import Plan

__all__ = ["fit_dead_tensors"]

_FINER = 256.0
"""Steps of an accumulator in one of its result: it adds little to the error of the rounding."""

_DEFAULT_STEP = 2.0**-7
"""Where nothing says one: the largest value is 1 or 2."""


def fit_dead_tensors(graph: Graph, plan: Plan, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """The ranges of groups with those of dead ones replaced, the last ones first.

    A tensor that is multiplied gets the step at which the accumulator is finer than the result by
    `_FINER`; one that is added, the step of the sum; else the layer before it decides.
    """
    fitted = dict(ranges)
    dead = {group for group, item in ranges.items() if item.low == item.high}
    if not dead:
        return fitted
    finder = _Steps(graph, plan, fitted)
    for node in reversed(graph.nodes):
        for name in (node.output, *node.inputs):
            group = plan.groups.get(name, "")
            if group in dead:
                steps = [*finder.of_readers(group)] or [*finder.of_producers(group)]
                fitted[group] = finder.range_of(group, min(steps, default=_DEFAULT_STEP))
                dead.discard(group)
    return fitted


class _Steps:
    """Steps that fit a group, from what is known of the tensors around it."""

    def __init__(self, graph: Graph, plan: Plan, ranges: Mapping[str, Range]) -> None:
        self._graph = graph
        self._plan = plan
        self._ranges = ranges

    def of_readers(self, group: str) -> Iterator[float]:
        """Steps that fit the nodes that read the group."""
        for node in self._graph.nodes:
            if any(self._plan.groups.get(name) == group for name in node.inputs):
                result = self._step(self._result(node))
                others = [
                    self._step(name)
                    for name in node.inputs[:2]
                    if self._plan.groups.get(name) != group
                ]
                if result and node.op not in (*PRODUCTS, "mul"):
                    yield result
                elif result and all(others):
                    yield result / (_FINER * float(np.prod(others)))

    def of_producers(self, group: str) -> Iterator[float]:
        """Steps that fit the layers that compute the group."""
        for node in self._graph.nodes:
            if self._plan.groups.get(self._result(node)) == group and node.op in PRODUCTS:
                factors = [self._step(name) for name in node.inputs[:2]]
                if all(factors):
                    yield _FINER * float(np.prod(factors))

    def range_of(self, group: str, step: float) -> Range:
        """The range that gives the group this step."""
        if self._plan.is_wide(group):
            return Range(0.0, step * 32767 / 2)
        return Range(0.0, step * (127 if group in self._plan.symmetric else 255))

    def _step(self, name: str) -> float:
        """The step of a tensor or of constant weights; 0 where that is not known."""
        if self._graph.is_constant(name):
            largest = float(np.abs(self._graph.constant(name)).max(initial=0))
            return largest / 127
        if name not in self._plan.groups:
            return 0.0
        group = self._plan.groups[name]
        chosen = self._ranges[group]
        if self._plan.is_wide(group):
            return float(chosen.wide_quantization()[0]) if chosen.low < chosen.high else 0.0
        return (chosen.high - chosen.low) / 255

    def _result(self, node: Node) -> str:
        """The quantized tensor that a node computes, maybe together with a ReLU or Clip."""
        name = node.output
        while name not in self._plan.groups:
            readers = self._graph.users[name]
            if len(readers) != 1 or readers[0].op not in BOUNDS:
                break
            name = readers[0].output
        return name
