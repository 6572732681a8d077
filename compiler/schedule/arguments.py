"""Checks that the arguments in a trace have the types that a primitive takes."""

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule.handles import BlockRef, LoopRef

__all__ = ["checked_arguments"]

_NAMES = {
    BlockRef: "a block",
    LoopRef: "a loop",
    int: "an integer",
    float: "a number",
    str: "a text",
    bool: "a truth value",
    types.NoneType: "null",
}


def checked_arguments(
    method: Callable[..., Any], arguments: Mapping[str, Any], decode: Callable[[Any], Any]
) -> list[Any]:
    """The arguments of a primitive in order, from untrusted data.

    Raises
    ------
    ScheduleError
        One is missing, or of another type.
    """
    hints = get_type_hints(method)
    result: list[Any] = []
    for name, parameter in list(inspect.signature(method).parameters.items())[1:]:
        if name not in arguments:
            if parameter.default == ():  # not recorded where it is empty
                result.append(())
                continue
            raise ScheduleError(f"{method.__name__} in a trace lacks {name!r}")
        value, hint = decode(arguments[name]), hints[name]
        several = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        if not (_all_fit(value, hint) if several else _fits(value, hint)):
            wanted = f"a list of ({_described(hint)})" if several else _described(hint)
            raise ScheduleError(
                f"{name!r} of {method.__name__} in a trace must be {wanted}, not "
                f"{arguments[name]!r}"
            )
        result += value if several else [value]
    return result


def _all_fit(value: Any, hint: Any) -> bool:
    return isinstance(value, list) and all(_fits(item, hint) for item in value)


def _fits(value: Any, hint: Any) -> bool:
    if isinstance(hint, TypeVar):
        return any(_fits(value, choice) for choice in hint.__constraints__)
    if get_origin(hint) in (Union, types.UnionType):
        return any(_fits(value, choice) for choice in get_args(hint))
    if get_origin(hint) is Sequence:
        return _all_fit(value, get_args(hint)[0])
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def _described(hint: Any) -> str:
    if isinstance(hint, TypeVar):
        return " or ".join(_described(choice) for choice in hint.__constraints__)
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_described(choice) for choice in get_args(hint))
    if get_origin(hint) is Sequence:
        return f"a list of ({_described(get_args(hint)[0])})"
    return _NAMES[hint]
