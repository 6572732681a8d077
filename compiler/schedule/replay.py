"""Running a trace on a function."""

from collections.abc import Mapping

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule.arguments import checked_arguments
from daedal.compiler.schedule.recording import results_of
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.schedule.tensorize import Intrin
from daedal.compiler.schedule.trace import Instruction, Trace
from daedal.compiler.tir.stmt import SCOPES, PrimFunc

__all__ = ["replay"]


def replay(
    trace: Trace,
    func: PrimFunc,
    intrinsics: Mapping[str, Intrin] | None = None,
    scopes: frozenset[str] = SCOPES,
    seed: int = 0,
) -> Schedule:
    """The schedule that the calls of `trace` make of `func`.

    `seed` decides what `Trace.with_decision` left open.

    Raises
    ------
    ScheduleError
        Where a call is none of a schedule's primitives, or illegal on `func`.
    """
    schedule = Schedule(func, intrinsics, scopes, seed)
    for item in trace.instructions:
        _apply(schedule, item)
    return schedule


def _apply(schedule: Schedule, item: Instruction) -> None:
    method = getattr(Schedule, item.primitive, None)
    if item.primitive.startswith("_") or not hasattr(method, "__wrapped__"):
        raise ScheduleError(f"a trace may call primitives of a schedule, not {item.primitive!r}")
    assert method is not None
    given = checked_arguments(method, item.arguments, schedule.handles.decode)
    result = method(schedule, *given)
    made = tuple(schedule.handles.name(handle) for handle in results_of(result))
    if made != item.results:
        raise ScheduleError(
            f"{item.primitive} gave {list(made)}, the trace has {list(item.results)}"
        )
