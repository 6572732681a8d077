"""Random schedules: what the compiler's schedule of a layer does, with other choices.

A schedule's trace is run again on its function. On the way tiles get other sizes, loops another
order, blocks and copies another place, and loops and buffers hints. What a primitive refuses is
done as recorded instead, and where that is refused too (a loop that it speaks of may be gone) left
out, or the attempt is given up: `ScheduleError`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule import BlockRef, Instruction, LoopRef, Schedule, Trace
from daedal.compiler.tir.sites import collect
from daedal.compiler.tir.stmt import PrimFunc
from tests.support.traces import Handles, call, decoded, handles_in

__all__ = ["random_schedule"]

NUM_ROW_LOOPS = 2
"""The innermost loops of every block: an image of the batch, a channel of the vector."""

OPTIONAL = frozenset({"compute_at", "virtual_thread", "double_buffer", "unroll", "annotate"})
"""Primitives without which a schedule is another one, but still one."""


def random_schedule(schedule: Schedule, original: PrimFunc, rng: np.random.Generator) -> Schedule:
    """Another schedule of `original`, after the trace of `schedule`.

    Raises
    ------
    ScheduleError
        This attempt has led nowhere, or to the same schedule.
    """
    result = _Attempt(schedule, original, rng).run()
    if str(result) == str(schedule):
        raise ScheduleError("every choice fell as it was")
    return result


class _Attempt:
    def __init__(self, schedule: Schedule, original: PrimFunc, rng: np.random.Generator) -> None:
        self.recorded = schedule
        self.original = original
        self.rng = rng
        self.result = Schedule(original, schedule.intrinsics, schedule.scopes)
        self.handles: Handles = {}
        self.rows = _row_loops(schedule.trace)
        self.boldness = rng.uniform(0.05, 0.8)

    def run(self) -> Schedule:
        for item in self.recorded.trace.instructions:
            if item.primitive == "tensorize" and self._chance(self.boldness / 2):
                self._hint()
            try:
                found = self._done(item)
            except KeyError as missing:
                raise ScheduleError(f"handle {missing} has gone") from None
            self._keep(item, found)
        return self.result

    def _done(self, item: Instruction) -> list[BlockRef | LoopRef]:
        """One call of the trace, now and then otherwise; a block that cannot move stays."""
        changes: dict[str, Callable[[Instruction], dict[str, Any]]] = {
            "split": self._other_factors,
            "reorder": self._other_order,
            "compute_at": self._other_place,
        }
        change = changes.get(item.primitive)
        if change is not None and self._chance(self.boldness):
            found = self._tried(item.primitive, change(item))
            if found is not None:
                return found
        try:
            return handles_in(call(self.result, item.primitive, self._arguments(item)))
        except ScheduleError:
            if item.primitive not in OPTIONAL:
                raise
            return []

    def _arguments(self, item: Instruction) -> dict[str, Any]:
        return {key: decoded(value, self.handles) for key, value in item.arguments.items()}

    def _tried(self, primitive: str, arguments: dict[str, Any]) -> list[BlockRef | LoopRef] | None:
        try:
            return handles_in(call(self.result, primitive, arguments))
        except ScheduleError:
            return None

    def _keep(self, item: Instruction, found: list[BlockRef | LoopRef]) -> None:
        """Names for what was returned; of loops around a block the innermost correspond."""
        if len(found) != len(item.results) and item.primitive != "get_loops":
            raise ScheduleError(f"{item.primitive} gave {len(found)} handles")
        pairs = zip(reversed(item.results), reversed(found), strict=False)
        self.handles.update(pairs)

    def _chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def _one_of(self, items: list[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    # -- other choices ----------------------------------------------------------------------------

    def _other_factors(self, item: Instruction) -> dict[str, Any]:
        arguments = self._arguments(item)
        factors = [
            None if factor is None else self._factor(arguments["loop"])
            for factor in arguments["factors"]
        ]
        return {**arguments, "factors": factors}

    def _factor(self, loop: LoopRef) -> int:
        """1, the whole extent of a loop, or something between."""
        sites, _ = collect(self.result.func.body)
        extent = next(x.extent for site in sites for x in site.loops if x.var is loop.var)
        return int(self._one_of([1, extent, int(self.rng.integers(extent)) + 1]))

    def _other_order(self, item: Instruction) -> dict[str, Any]:
        """Another order of all loops but those over a row, which instructions need inside."""
        names = [name[1:] for name in item.arguments["order"]]
        free = [position for position, name in enumerate(names) if name not in self.rows]
        order = list(names)
        for position, source in zip(free, self.rng.permutation(free), strict=True):
            order[position] = names[int(source)]
        return {"order": [self.handles[name] for name in order]}

    def _other_place(self, item: Instruction) -> dict[str, Any]:
        """Under another loop of a consumer, but not under those over a row."""
        arguments = self._arguments(item)
        rows = {self.handles[name] for name in self.rows if name in self.handles}
        loops = [
            loop
            for consumer in self.result.get_consumers(arguments["block"])
            for loop in self.result.get_loops(consumer)[:-NUM_ROW_LOOPS]
            if loop not in rows
        ]
        return {**arguments, "loop": self._one_of(loops)} if loops else arguments

    def _hint(self) -> None:
        """A loop cut further, or run otherwise; a buffer held twice."""
        sites, _ = collect(self.result.func.body)
        block = self.result.get_block(self._one_of(sites).block.name)
        loops = self.result.get_loops(block)
        if not loops:
            return
        loop = self._one_of(loops)
        rows = {self.handles[name] for name in self.rows if name in self.handles}
        hints: list[tuple[str, dict[str, Any]]] = [
            ("virtual_thread", {"loop": loop}),
            ("unroll", {"loop": loop}),
            ("double_buffer", {"block": block, "write": 0}),
        ]
        if loop not in rows:
            hints.append(("split", {"loop": loop, "factors": [None, self._factor(loop)]}))
        self._tried(*self._one_of(hints))


def _row_loops(trace: Trace) -> set[str]:
    """The recorded names of loops within an instruction: those that `tensorize` took.

    A nest goes to an instruction from a loop inwards: what followed it when the loops of the block
    were last listed or put in order.
    """
    inside: dict[str, list[str]] = {}
    found: set[str] = set()
    for item in trace.instructions:
        names = list(item.results)
        if item.primitive == "reorder":
            names = [name[1:] for name in item.arguments["order"]]
        if item.primitive in ("get_loops", "reorder"):
            inside.update((name, names[position:]) for position, name in enumerate(names))
        if item.primitive == "tensorize":
            found.update(inside.get(item.arguments["target"][1:], ()))
    return found
