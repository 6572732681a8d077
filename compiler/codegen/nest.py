"""A loop nest around one machine operation, and its folding into hardware loops and micro-ops.

Input: `Nest`, whose row numbers are affine in its loops. Output: `Folded`, the fields of one
instruction. Row = base + micro-op + sum of loop index times factor, as `isa.microcode` defines it.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from daedal.isa.table import LOOPS

__all__ = ["MAX_RUNS", "Folded", "Nest", "accumulation_steps", "fold"]

MAX_RUNS = 64
"""Bound on the ranges of rows that are recorded for one operand of an instruction."""


@dataclass(frozen=True)
class Nest:
    """Loops, outermost first, around an operation on rows.

    Parameters
    ----------
    extents : iterations per loop.
    bases : per operand, the row at the first iteration.
    steps : per operand, the row increment of each loop.
    reduce : which loops accumulate into the same rows.
    initial : whether the accumulation begins here; else it adds to the existing values.
    """

    extents: tuple[int, ...]
    bases: Mapping[str, int]
    steps: Mapping[str, tuple[int, ...]]
    reduce: tuple[bool, ...]
    initial: bool = False

    def hull(self, operand: str) -> tuple[int, int]:
        """Rows ``[begin, end)`` from the lowest to the highest row of an operand."""
        low = high = self.bases[operand]
        for extent, step in zip(self.extents, self.steps[operand], strict=True):
            reach = (extent - 1) * step
            low, high = low + min(0, reach), high + max(0, reach)
        return low, high + 1

    def runs(self, operand: str, width: int = 1) -> list[tuple[int, int]]:
        """Ranges ``[begin, end)`` that contain the rows of an operand, `width` from each position.

        Loops whose steps leave gaps separate the ranges, the shortest steps last. Gaps are included
        where there would be more than `MAX_RUNS` ranges.
        """
        low, high = self.hull(operand)
        length, begins = width, [low]
        moving = zip(self.extents, map(abs, self.steps[operand]), strict=True)
        for extent, step in sorted(moving, key=lambda loop: loop[1]):
            if step <= length:
                length += (extent - 1) * step
                continue
            if extent * len(begins) > MAX_RUNS:
                return [(low, high + width - 1)]
            begins = [begin + index * step for begin in begins for index in range(extent)]
        return [(begin, begin + length) for begin in begins]

    def select(self, loops: Sequence[int]) -> "Nest":
        """The nest of these loops only, in this order; the others stay at their first iteration."""
        return replace(
            self,
            extents=tuple(self.extents[k] for k in loops),
            steps={name: tuple(steps[k] for k in loops) for name, steps in self.steps.items()},
            reduce=tuple(self.reduce[k] for k in loops),
        )

    def at(self, loop: int, index: int) -> "Nest":
        """The nest with one loop fixed at an iteration."""
        bases = {name: row + index * self.steps[name][loop] for name, row in self.bases.items()}
        rest = self.select([k for k in range(len(self.extents)) if k != loop])
        initial = self.initial and not (self.reduce[loop] and index)
        return replace(rest, bases=bases, initial=initial)


@dataclass(frozen=True)
class Folded:
    """One instruction's loops: hardware loops (always `LOOPS` of them), micro-ops, bases.

    `bases` has the lowest row of each operand: a loop that counts down is unrolled.
    `uops` has one row number per micro-op and operand, in the order of the nest's operands. `first`
    marks the micro-ops for which every unrolled accumulating loop is in its first iteration.
    """

    nest: Nest
    bases: Mapping[str, int]
    extents: tuple[int, ...]
    factors: Mapping[str, tuple[int, ...]]
    uops: tuple[tuple[int, ...], ...]
    first: tuple[bool, ...]


def fold(
    nest: Nest, *, max_uops: int, max_extent: int, reduce_outermost: bool = False
) -> Iterator[Folded]:
    """Fold `nest` into as few instructions as possible, each with as few micro-ops as possible.

    The longest loops become hardware loops; the rest is unrolled into micro-ops. With
    `reduce_outermost` the accumulating loops are hardware loops around all others. The ALU then
    returns to the same accumulator as late as possible, and never waits for its own result.
    """
    if reduce_outermost:
        nest = nest.select(sorted(range(len(nest.extents)), key=lambda k: not nest.reduce[k]))
    nest = _fused(nest)
    chosen = _hardware_loops(nest, max_extent, reduce_outermost)
    unrolled = [k for k in range(len(nest.extents)) if k not in chosen]
    if math.prod(nest.extents[k] for k in unrolled) > max_uops:
        outermost = 0 if reduce_outermost else unrolled[0]
        for index in range(nest.extents[outermost]):
            yield from fold(
                nest.at(outermost, index),
                max_uops=max_uops,
                max_extent=max_extent,
                reduce_outermost=reduce_outermost,
            )
        return
    yield _folded(nest, chosen, unrolled)


def accumulation_steps(nest: Nest) -> Iterator[tuple[bool, Nest]]:
    """Split a reduction into its initial step, if it begins here, and the combining steps.

    Yields (whether it is the initial step, nest). There is one combining nest for each accumulating
    loop.
    """
    if not nest.initial:
        yield False, nest
        return
    nest = _fused(nest)
    loops = range(len(nest.extents))
    accumulating = [k for k in loops if nest.reduce[k]]
    yield True, nest.select([k for k in loops if not nest.reduce[k]])
    for position, loop in enumerate(accumulating):
        # Outer accumulating loops stay at 0, this one starts at 1, inner ones run in full.
        kept = [k for k in loops if k not in accumulating[:position]]
        extents = list(nest.extents)
        extents[loop] -= 1
        bases = {name: row + nest.steps[name][loop] for name, row in nest.bases.items()}
        rest = replace(nest, extents=tuple(extents), bases=bases, initial=False)
        yield False, rest.select(kept)


def _folded(nest: Nest, chosen: Sequence[int], unrolled: Sequence[int]) -> Folded:
    hardware, inner = nest.select(chosen), nest.select(unrolled)
    padding = (0,) * (LOOPS - len(chosen))
    points = list(itertools.product(*(range(extent) for extent in inner.extents)))
    # Fields and micro-ops are unsigned.
    lows = {
        name: sum(
            min(0, (extent - 1) * step) for extent, step in zip(inner.extents, steps, strict=True)
        )
        for name, steps in inner.steps.items()
    }
    return Folded(
        nest,
        {name: row + lows[name] for name, row in nest.bases.items()},
        (1,) * len(padding) + hardware.extents,
        {name: padding + steps for name, steps in hardware.steps.items()},
        tuple(
            tuple(
                sum(i * step for i, step in zip(point, steps, strict=True)) - lows[name]
                for name, steps in inner.steps.items()
            )
            for point in points
        ),
        tuple(
            not any(i for i, reduce in zip(point, inner.reduce, strict=True) if reduce)
            for point in points
        ),
    )


def _hardware_loops(nest: Nest, max_extent: int, reduce_first: bool) -> list[int]:
    """The most profitable loops that fit the fields, in the order of the nest."""
    possible = [
        k
        for k, extent in enumerate(nest.extents)
        if extent <= max_extent and all(steps[k] >= 0 for steps in nest.steps.values())
    ]
    best = sorted(
        possible, key=lambda k: (not (reduce_first and nest.reduce[k]), -nest.extents[k], k)
    )
    return sorted(best[:LOOPS])


def _fused(nest: Nest) -> Nest:
    """Drop loops of one iteration, and fuse adjacent loops whose rows advance like one loop."""
    nest = nest.select([k for k, extent in enumerate(nest.extents) if extent > 1])
    k = 0
    while k + 1 < len(nest.extents):
        inner = nest.extents[k + 1]
        joins = nest.reduce[k] == nest.reduce[k + 1] and all(
            steps[k] == inner * steps[k + 1] for steps in nest.steps.values()
        )
        if not joins:
            k += 1
            continue
        extents = list(nest.extents)
        extents[k : k + 2] = [extents[k] * inner]
        nest = Nest(
            tuple(extents),
            nest.bases,
            {name: steps[:k] + steps[k + 1 :] for name, steps in nest.steps.items()},
            nest.reduce[:k] + nest.reduce[k + 1 :],
            nest.initial,
        )
        k = max(0, k - 1)
    return nest
