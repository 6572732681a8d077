"""Makes a method of `Schedule` a primitive: verified (unless trusted), recorded, and atomic."""

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule.handles import BlockRef, Handle, LoopRef
from daedal.compiler.schedule.sampling import Sampled, SampledInt, SampledStr
from daedal.compiler.schedule.trace import Instruction
from daedal.compiler.tir.errors import InvalidIRError

if TYPE_CHECKING:
    from daedal.compiler.schedule.base import ScheduleBase

__all__ = ["HandleTable", "primitive"]

P = ParamSpec("P")
R = TypeVar("R")


class HandleTable:
    """Names of what a schedule gave out: b0, ... blocks; l0, ... loops; v0, ... sampled values."""

    def __init__(self) -> None:
        self.names: dict[Handle, str] = {}
        # Two samples may be equal: each is known as the object that it is, which `handles` keeps.
        self.samples: dict[int, str] = {}
        self.handles: dict[str, Handle | Sampled] = {}
        self.counts: Counter[str] = Counter()

    def name(self, handle: Handle | Sampled) -> str:
        """The name of `handle`, a new one at its first appearance."""
        if isinstance(handle, Sampled):
            if id(handle) not in self.samples:
                self.samples[id(handle)] = self._named("v", handle)
            return self.samples[id(handle)]
        if handle not in self.names:
            letter = "b" if isinstance(handle, BlockRef) else "l"
            self.names[handle] = self._named(letter, handle)
        return self.names[handle]

    def _named(self, letter: str, handle: Handle | Sampled) -> str:
        name = f"{letter}{self.counts[letter]}"
        self.counts[letter] += 1
        self.handles[name] = handle
        return name

    def encode(self, value: Any) -> Any:
        """`value` as JSON data, handles by name."""
        if isinstance(value, BlockRef | LoopRef):
            if value not in self.names:
                raise ScheduleError(
                    f"handle {value.name!r} is not of this schedule; get it from get_block or "
                    "get_loops"
                )
            return "%" + self.names[value]
        if isinstance(value, Sampled):
            known = id(value) in self.samples
            return "%" + self.samples[id(value)] if known else plain(value)
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


def results_of(value: Any) -> list[Handle | Sampled]:
    """The handles and sampled values that a primitive returned."""
    if isinstance(value, BlockRef | LoopRef | Sampled):
        return [value]
    if isinstance(value, list | tuple):
        return [handle for part in value for handle in results_of(part)]
    return []


def plain(value: Any) -> Any:
    """Sampled values as the numbers and texts that they are."""
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, SampledInt):
        return int(value)
    return str(value) if isinstance(value, SampledStr) else value


def primitive(method: Callable[P, R]) -> Callable[P, R]:
    """Record the call, verify what it leaves; where it fails the schedule stays as it was.

    A trusted schedule verifies only when its function is read.

    An argument called ``decision`` is recorded as what came out; an empty sequence that is a
    default is not recorded.
    """
    signature = inspect.signature(method)

    @functools.wraps(method)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        schedule: ScheduleBase = args[0]  # type: ignore[assignment]
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = {}
        for key, value in list(bound.arguments.items())[1:]:
            if signature.parameters[key].default != () or len(value):
                arguments[key] = schedule.handles.encode(value)
        before = schedule._stripped, schedule._kept, schedule._placed
        try:
            result = method(*args, **kwargs)
            if schedule._placed is None and not schedule.trusted:
                schedule._settle()
        except InvalidIRError as error:
            schedule._stripped, schedule._kept, schedule._placed = before
            raise ScheduleError(f"{method.__name__} would break the loop IR: {error}") from None
        except BaseException:
            schedule._stripped, schedule._kept, schedule._placed = before
            raise
        if "decision" in arguments:
            arguments["decision"] = plain(result)
        names = tuple(schedule.handles.name(handle) for handle in results_of(result))
        schedule.trace.instructions.append(Instruction(method.__name__, arguments, names))
        return result

    return wrapper
