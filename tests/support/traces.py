"""Running a trace call by call, with handles and arguments that may be others than recorded."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from daedal.compiler.schedule import BlockRef, Instruction, LoopRef, Schedule
from daedal.compiler.tir.stmt import PrimFunc

__all__ = ["Handles", "call", "decoded", "handles_in", "steps"]

Handles = dict[str, BlockRef | LoopRef]


def decoded(value: Any, handles: Mapping[str, BlockRef | LoopRef]) -> Any:
    """An argument with its handles in place of their names; KeyError for one that is missing."""
    if isinstance(value, str) and value.startswith("%"):
        return handles[value[1:]]
    if isinstance(value, list):
        return [decoded(part, handles) for part in value]
    return value


def call(schedule: Schedule, primitive: str, arguments: Mapping[str, Any]) -> Any:
    """Call a primitive with named arguments."""
    method = getattr(Schedule, primitive)
    positional: list[Any] = []
    for name, parameter in list(inspect.signature(method).parameters.items())[1:]:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            positional += arguments[name]
        elif parameter.default == ():  # not recorded where it is empty
            positional.append(arguments.get(name, ()))
        else:
            positional.append(arguments[name])
    return method(schedule, *positional)


def handles_in(result: Any) -> list[BlockRef | LoopRef]:
    """The handles that a primitive returned, in order."""
    if isinstance(result, BlockRef | LoopRef):
        return [result]
    return [handle for part in result or () for handle in handles_in(part)]


def steps(schedule: Schedule, original: PrimFunc) -> Iterator[tuple[Instruction, Schedule]]:
    """Replay the trace of `schedule` on `original`; yields after every call."""
    again = Schedule(original, schedule.intrinsics, schedule.scopes)
    handles: Handles = {}
    for item in schedule.trace.instructions:
        arguments = {key: decoded(value, handles) for key, value in item.arguments.items()}
        found = handles_in(call(again, item.primitive, arguments))
        handles.update(zip(item.results, found, strict=True))
        yield item, again
