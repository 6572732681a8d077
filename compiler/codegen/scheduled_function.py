"""`ScheduledFunction`: what the back end needs to know about one function of a layer."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from daedal.compiler.codegen.memory_view import MemoryView
from daedal.compiler.schedule.schedule import Schedule

__all__ = ["ScheduledFunction"]


@dataclass(frozen=True)
class ScheduledFunction:
    """A function that is scheduled for the accelerator.

    Parameters
    ----------
    tensors : program-wide names of the function's parameters; one not in it keeps its name.
    views : memory views of the parameters that are not dense.
    """

    schedule: Schedule
    tensors: Mapping[str, str] = field(default_factory=dict)
    views: Mapping[str, MemoryView] = field(default_factory=dict)
