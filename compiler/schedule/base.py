"""Shared by all primitives: the function under transformation, and its replacement."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule.placement import place_allocations, strip_allocations
from daedal.compiler.schedule.recording import HandleTable
from daedal.compiler.schedule.tensorize import Intrin
from daedal.compiler.schedule.trace import Trace
from daedal.compiler.tir.errors import InvalidIRError
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
        *,
        trusted: bool = False,
    ) -> None:
        verify(func, scopes)
        body, self._kept = strip_allocations(func)
        self._stripped = replace(func, body=body)
        self._placed: PrimFunc | None = func
        self.trusted = trusted
        self.intrinsics = dict(intrinsics or {})
        self.scopes = scopes
        self.rng = np.random.default_rng(seed)
        self.handles = HandleTable()
        self.trace = Trace()

    def __str__(self) -> str:
        return func_text(self.func)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """What notebooks show: the text."""
        printer.text(str(self))

    @property
    def func(self) -> PrimFunc:
        """The function now, with its buffers allocated, and verified.

        Raises ScheduleError where the primitives of a trusted schedule left what is not legal.
        """
        if self._placed is None:
            try:
                return self._settle()
            except InvalidIRError as error:
                raise ScheduleError(f"a trusted schedule breaks the loop IR: {error}") from None
        return self._placed

    @property
    def bare(self) -> PrimFunc:
        """The function now, without allocations, which follow from it; costs nothing."""
        return self._stripped

    def _update(
        self, body: Stmt, notes: Mapping[Buffer, Mapping[str, Value]] | None = None
    ) -> None:
        """Set the function's body, given without allocations; `notes` annotate the allocations."""
        self._stripped = replace(self._stripped, body=body)
        self._kept = {**self._kept, **(notes or {})}
        self._placed = None

    def _settle(self) -> PrimFunc:
        """Allocate the buffers and verify the function. Raises InvalidIRError."""
        func = place_allocations(self._stripped, self._stripped.body, self._kept)
        verify(func, self.scopes)
        self._placed = func
        return func

    def _notes(self, buffer: Buffer) -> dict[str, Value]:
        """The annotations of an allocated buffer."""
        return dict(self._kept.get(buffer, {}))
