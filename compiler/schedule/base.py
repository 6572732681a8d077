"""Shared by all primitives: the function under transformation, and its replacement."""

from collections.abc import Mapping

import numpy as np

from daedal.compiler.schedule.placement import place_allocations, strip_allocations
from daedal.compiler.schedule.recording import HandleTable
from daedal.compiler.schedule.tensorize import Intrin
from daedal.compiler.schedule.trace import Trace
from daedal.compiler.tir.expr import Buffer
from daedal.compiler.tir.printer import func_text
from daedal.compiler.tir.stmt import SCOPES, PrimFunc, Stmt, Value
from daedal.compiler.tir.verify import verify

__all__ = ["ScheduleBase"]


class ScheduleBase:
    """The state of a schedule; see `daedal.compiler.schedule.schedule.Schedule`."""

    def __init__(
        self,
        func: PrimFunc,
        intrinsics: Mapping[str, Intrin] | None = None,
        scopes: frozenset[str] = SCOPES,
        seed: int = 0,
    ) -> None:
        verify(func, scopes)
        self.func = func
        self.intrinsics = dict(intrinsics or {})
        self.scopes = scopes
        self.rng = np.random.default_rng(seed)
        self.handles = HandleTable()
        self.trace = Trace()

    def __str__(self) -> str:
        return func_text(self.func)

    def _bare(self) -> PrimFunc:
        """The function without allocations, which are placed again after every primitive."""
        body, _ = strip_allocations(self.func)
        return PrimFunc(self.func.name, self.func.params, body, self.func.num_outputs)

    def _update(
        self, body: Stmt, notes: Mapping[Buffer, Mapping[str, Value]] | None = None
    ) -> None:
        """Set the function's body, given without allocations; `notes` annotate the allocations."""
        _, kept = strip_allocations(self.func)
        self.func = place_allocations(self.func, body, {**kept, **(notes or {})})

    def _notes(self, buffer: Buffer) -> dict[str, Value]:
        """The annotations of an allocated buffer."""
        _, notes = strip_allocations(self.func)
        return dict(notes.get(buffer, {}))
