"""Parameters and result of a kernel or intrinsic, from its annotations."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from daedal.common.errors import KernelError
from daedal.native.record import BOOL, RecordType, record_type
from daedal.native.types import ArrayType, Kind, Scalar

__all__ = ["Parameter", "ParameterType", "Signature", "signature_of", "where"]

ParameterType: TypeAlias = Scalar | ArrayType | RecordType

_RESULTS = {"i64": Kind.INT, "f64": Kind.FLOAT, "bool": Kind.BOOL}


@dataclass(frozen=True)
class Parameter:
    """One parameter; `slots` is what it takes in a call's argument block."""

    name: str
    type: ParameterType

    @property
    def slots(self) -> int:
        """8-byte slots."""
        if isinstance(self.type, RecordType):
            return self.type.slots
        return 2 if isinstance(self.type, ArrayType) else 1


@dataclass(frozen=True)
class Signature:
    """Parameters in order; `result` is None where nothing is returned."""

    parameters: tuple[Parameter, ...]
    result: Kind | None


def where(function: Callable[..., Any], line: int | None = None) -> str:
    """``file.py:12``, for messages."""
    code = function.__code__
    name = code.co_filename.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{name}:{code.co_firstlineno if line is None else line}"


def signature_of(function: Callable[..., Any]) -> Signature:
    """Read the annotations of `function`. Raises KernelError where they are not the language's."""
    place = f"{where(function)}, {function.__name__}"
    annotations = inspect.get_annotations(function, eval_str=True)
    parameters = []
    for item in inspect.signature(function).parameters.values():
        plain = item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)
        if not plain or item.default is not item.empty:
            raise KernelError(
                f"a kernel's parameters must be positional and without defaults, not {item} "
                f"({place})"
            )
        annotation = annotations.get(item.name)
        kind = BOOL if annotation is bool else record_type(annotation) or annotation
        if not isinstance(kind, Scalar | ArrayType | RecordType):
            raise KernelError(
                f"a kernel's parameter must be annotated with a scalar, Array[...] or a record, "
                f"not {item} ({place})"
            )
        parameters.append(Parameter(item.name, kind))
    result = annotations.get("return", inspect.Signature.empty)
    name = "bool" if result is bool else getattr(result, "name", "")
    if result is not None and name not in _RESULTS:
        raise KernelError(f"a kernel must return i64, f64, bool or None, not {result!r} ({place})")
    return Signature(tuple(parameters), None if result is None else _RESULTS[name])
