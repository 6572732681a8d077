"""What makes a method of `Schedule` a primitive: verified, recorded, all or nothing."""

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from daedal.compiler.schedule.handles import BlockRef, Handle, LoopRef
from daedal.compiler.schedule.trace import Instruction
from daedal.compiler.tir.errors import InvalidIRError
from daedal.compiler.tir.verify import verify
from daedal.isa.errors import ScheduleError

if TYPE_CHECKING:
    from daedal.compiler.schedule.schedule import Schedule

__all__ = ["HandleTable", "primitive"]

P = ParamSpec("P")
R = TypeVar("R")


class HandleTable:
    """Names of the handles that a schedule gave out: b0, b1, ... blocks; l0, l1, ... loops."""

    def __init__(self) -> None:
        self.names: dict[Handle, str] = {}
        self.handles: dict[str, Handle] = {}

    def name(self, handle: Handle) -> str:
        """The name of `handle`, a new one at its first appearance."""
        if handle not in self.names:
            letter = "b" if isinstance(handle, BlockRef) else "l"
            count = sum(name.startswith(letter) for name in self.names.values())
            self.names[handle] = f"{letter}{count}"
            self.handles[f"{letter}{count}"] = handle
        return self.names[handle]

    def encode(self, value: Any) -> Any:
        """`value` as JSON data, handles by name."""
        if isinstance(value, BlockRef | LoopRef):
            if value not in self.names:
                raise ScheduleError(
                    f"handle {value.name!r} is not of this schedule; get it from get_block or "
                    "get_loops"
                )
            return "%" + self.names[value]
        if isinstance(value, list | tuple):
            return [self.encode(part) for part in value]
        return value

    def decode(self, value: Any) -> Any:
        """The inverse of `encode`."""
        if isinstance(value, str) and value.startswith("%"):
            if value[1:] not in self.handles:
                raise ScheduleError(f"a trace must define {value} before it uses it")
            return self.handles[value[1:]]
        if isinstance(value, list):
            return [self.decode(part) for part in value]
        return value


def results_of(value: Any) -> list[Handle]:
    """The handles that a primitive returned."""
    if isinstance(value, BlockRef | LoopRef):
        return [value]
    if isinstance(value, list | tuple):
        return [handle for part in value for handle in results_of(part)]
    return []


def primitive(method: Callable[P, R]) -> Callable[P, R]:
    """Record the call, verify what it leaves; where it fails the schedule stays as it was."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        schedule: Schedule = args[0]  # type: ignore[assignment]
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = {}
        for key, value in list(bound.arguments.items())[1:]:
            arguments[key] = schedule.handles.encode(value)
        before = schedule.func
        try:
            result = method(*args, **kwargs)
            if schedule.func is not before:
                verify(schedule.func, schedule.scopes)
        except InvalidIRError as error:
            schedule.func = before
            raise ScheduleError(f"{method.__name__} would break the loop IR: {error}") from None
        except BaseException:
            schedule.func = before
            raise
        names = tuple(schedule.handles.name(handle) for handle in results_of(result))
        schedule.trace.instructions.append(Instruction(method.__name__, arguments, names))
        return result

    return wrapper
