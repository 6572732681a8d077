"""Resolves the names in a kernel, finds what it calls, and derives its cache key."""

import types
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from daedal.native.intrinsic import Intrinsic
from daedal.native.record import RecordType, record_type
from daedal.native.signature import Signature

__all__ = ["KernelLike", "as_constant", "is_kernel", "reachable", "resolve", "sources_text"]

_DEEPEST = 4
"""Dots of the longest dotted name that a kernel may use."""


class KernelLike(Protocol):
    """What this module needs of a kernel; `daedal.native.kernel.Kernel` is one."""

    function: Callable[..., Any]

    @property
    def signature(self) -> Signature:
        """Parameters and result."""


def is_kernel(value: Any) -> bool:
    """Whether `value` is a kernel."""
    return isinstance(getattr(value, "function", None), types.FunctionType) and isinstance(
        getattr(value, "signature", None), Signature
    )


def as_constant(value: Any) -> int | float | bool | None:
    """The number that a kernel sees where a name means `value`; None where it is no number."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value)
    return None


def resolve(function: Callable[..., Any], dotted: str) -> Any:
    """What ``a.b.c`` means at the module level of `function`; LookupError where nothing does."""
    first, *rest = dotted.split(".")
    if len(rest) > _DEEPEST:
        raise LookupError(dotted)
    value = function.__globals__[first]
    for name in rest:
        if not isinstance(value, types.ModuleType | type):
            raise LookupError(dotted)
        try:
            value = getattr(value, name)
        except AttributeError:
            raise LookupError(dotted) from None
    return value


def _named(function: Callable[..., Any]) -> list[tuple[str, Any]]:
    """What the code can name at module level: names, and dotted names through modules and classes.

    More than it does name: byte code does not say which attribute is taken of what.
    """
    names = function.__code__.co_names
    seen = function.__globals__
    found = [(name, seen[name]) for name in names if name in seen]
    for name, value in found:
        if isinstance(value, types.ModuleType | type) and name.count(".") < _DEEPEST:
            attributes = [item for item in names if hasattr(value, item)]
            found += [(f"{name}.{item}", getattr(value, item)) for item in attributes]
    return found


def reachable(kernel: KernelLike) -> tuple[list[KernelLike], list[Intrinsic]]:
    """The kernel and every kernel that it calls, itself first; and every intrinsic."""
    kernels: list[KernelLike] = [kernel]
    intrinsics: list[Intrinsic] = []
    for current in kernels:
        for _, value in _named(current.function):
            if is_kernel(value) and not any(value is known for known in kernels):
                kernels.append(value)
            if isinstance(value, Intrinsic) and not any(value is known for known in intrinsics):
                intrinsics.append(value)
    return kernels, intrinsics


def sources_text(kernel: KernelLike, *, checked: bool) -> str:
    """A text that differs whenever the machine code of `kernel` could differ.

    Derived from byte code rather than source, which avoids reading and parsing files.
    """
    kernels, intrinsics = reachable(kernel)
    lines = [f"checked {checked}"]
    for item in kernels:
        code = item.function.__code__
        lines.append(f"kernel {item.function.__module__}.{item.function.__qualname__}")
        lines.append(repr((code.co_code, code.co_consts, code.co_names, code.co_varnames)))
        if checked:
            lines.append(repr((code.co_firstlineno, code.co_linetable)))
        lines.append(repr(item.signature))
        for name, value in _named(item.function):
            number = as_constant(value)
            kind = value if isinstance(value, RecordType) else record_type(value)
            if number is not None:
                lines.append(f"{name} = {number!r}")
            elif kind is not None:
                lines.append(f"{name} = {kind!r}")
            else:
                lines.append(f"{name} is {getattr(value, '__qualname__', type(value).__name__)}")
    for function in intrinsics:
        lines.append(f"intrinsic {function.definition()} {function.signature!r}")
    return "\n".join(lines)
