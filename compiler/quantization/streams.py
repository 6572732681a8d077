"""Gives each residual stream one scale, in which its sums cannot leave 16 bits.

A residual stream is a chain of sums. With one scale for all that it adds, no operand of a sum has
to be multiplied. And where each of the values that are added has bounds, whose sum fits 16 bits,
no sum has to be rounded or clipped either: it is one addition.

Of a stream, these are the *terms*: what the sums add that is not such a sum itself. Each has room
for twice what the samples show, as `Range.wide_quantization` gives it.

Where a norm gives one of the terms, each sum is a stream of its own, as in the encoder of Vaswani
et al. (2017). Products read the norm, too, and take its result from that of 16 bits
(`daedal.compiler.graph.passes.lowering.derived_norms`). Such a stream is left as it is.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from daedal.compiler.graph.graph import Graph
from daedal.compiler.quantization.calibration.ranges import WIDE_HEADROOM, Range, wide_scale
from daedal.compiler.quantization.operators import (
    NORMS,
    SUMS,
    move_operands,
    product_operands,
)
from daedal.compiler.quantization.plan import Plan

__all__ = ["Streams", "find_streams"]

BOUND_STEPS = 256
"""Bounds of 16 bits are multiples of it: REQUANTIZE holds their upper 8 bits."""

_SUM_OF_BOUNDS = (1 << 15) // BOUND_STEPS


@dataclass(frozen=True)
class Streams:
    """Scales and bounds of residual streams.

    Parameters
    ----------
    scales : by representative of a group of 16 bits, and by name of a constant that is added.
    bounds : by tensor, what it is clipped to: from ``-bound * BOUND_STEPS`` steps to one less than
        ``bound * BOUND_STEPS``.
    """

    scales: Mapping[str, np.float32] = field(default_factory=dict)
    bounds: Mapping[str, int] = field(default_factory=dict)

    def bounds_of(self, tensor: str, group: str) -> tuple[np.float32, np.float32] | None:
        """The real bounds of a tensor, if it has any."""
        if tensor not in self.bounds:
            return None
        steps, scale = self.bounds[tensor] * BOUND_STEPS, self.scales[group]
        return np.float32(-steps * scale), np.float32((steps - 1) * scale)


def find_streams(graph: Graph, plan: Plan, ranges: Mapping[str, Range]) -> Streams:
    """The streams of a graph whose activations have the `ranges`, by name."""
    found = _Finder(graph, plan)
    scales: dict[str, np.float32] = {}
    bounds: dict[str, int] = {}
    for members in found.streams():
        if any(found.is_of_norm(name) for name in members):
            continue
        terms = found.terms(members)
        sizes = {name: _largest(graph, ranges, name) for name in terms}
        largest = max(_largest(graph, ranges, name) for name in members)
        scale, steps = _bounded(sizes, wide_scale(largest))
        scales |= dict.fromkeys((plan.groups.get(name, name) for name in members), scale)
        bounds |= {name: n for name, n in steps.items() if name in plan.groups}
    return Streams(scales, bounds)


def _bounded(sizes: Mapping[str, float], least: np.float32) -> tuple[np.float32, Mapping[str, int]]:
    """The smallest scale, `least` or larger, in which the terms' bounds have a sum of 16 bits, and
    these bounds; none if there are too many terms."""
    if not sizes or len(sizes) > _SUM_OF_BOUNDS // 2:
        return least, {}
    scale = least
    while True:
        steps = {
            name: max(1, int(np.ceil(size * WIDE_HEADROOM / (float(scale) * BOUND_STEPS))))
            for name, size in sizes.items()
        }
        total = sum(steps.values())
        if total <= _SUM_OF_BOUNDS:
            return scale, steps
        scale = np.float32(float(scale) * max(total / _SUM_OF_BOUNDS, 1 + 1 / _SUM_OF_BOUNDS))


def _largest(graph: Graph, ranges: Mapping[str, Range], name: str) -> float:
    if graph.is_constant(name):
        return float(np.abs(graph.constant(name)).max(initial=0.0))
    return max(-ranges[name].low, ranges[name].high)


class _Finder:
    """The tensors of 16 bits that sums connect."""

    def __init__(self, graph: Graph, plan: Plan) -> None:
        self._graph, self._plan = graph, plan
        masked = {item.result for item in plan.masked}
        self._sums = {
            node.output: node
            for node in graph.nodes
            if node.op in SUMS
            and node.output in plan.computed - plan.functions - plan.unquantized - masked
            and self._is_wide(node.output)
        }

    def streams(self) -> Iterator[list[str]]:
        """The tensors and constants of each."""
        parents: dict[str, str] = {}

        def find(name: str) -> str:
            while parents.setdefault(name, name) != name:
                name = parents[name]
            return name

        for result, node in self._sums.items():
            for name in node.inputs:
                if self._is_wide(name) or self._is_constant(name):
                    parents[find(self._group(name))] = find(self._group(result))
        members: dict[str, list[str]] = {}
        for name in chain(self._plan.groups, self._graph.constants):
            if self._group(name) in parents:
                members.setdefault(find(self._group(name)), []).append(name)
        yield from members.values()

    def is_of_norm(self, name: str) -> bool:
        """Whether a norm computes a tensor."""
        node = self._graph.producers.get(name)
        return node is not None and node.op in NORMS

    def terms(self, members: Iterable[str]) -> list[str]:
        """What the sums of a stream add that can have bounds."""
        exact: set[str] = set()
        found: dict[str, None] = {}
        for name in members:
            if name in self._sums:
                sources = [list(self._sources(x)) for x in self._sums[name].inputs]
                if all(self._can_have_bounds(x, exact) for x in chain(*sources)):
                    exact.add(name)
                    found |= dict.fromkeys(x for x in chain(*sources) if x not in exact)
        return list(found)

    def _sources(self, name: str) -> Iterator[str]:
        """What a tensor's elements are, before they were moved."""
        node = self._graph.producers.get(name)
        moved = None if node is None else move_operands(self._graph, node)
        if not moved or any(self._group(x) != self._group(name) for x in moved):
            yield name
            return
        for x in moved:
            yield from self._sources(x)

    def _can_have_bounds(self, name: str, exact: Iterable[str]) -> bool:
        """Whether integers compute a tensor of 16 bits, and so can clip it."""
        if name in exact or self._is_constant(name):
            return True
        node = self._graph.producers.get(name)
        if node is None or name not in self._plan.computed or not self._is_wide(name):
            return False
        return bool(product_operands(self._graph, node)) or name in self._sums

    def _is_wide(self, name: str) -> bool:
        return name in self._plan.groups and self._plan.is_wide(name)

    def _is_constant(self, name: str) -> bool:
        return self._graph.is_constant(name) and self._graph.constant(name).size > 1

    def _group(self, name: str) -> str:
        return self._plan.groups.get(name, name)
