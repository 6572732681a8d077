"""Runs a kernel as plain Python: array elements are Python numbers, and its calls are plain too."""

import copy
import types
from collections.abc import Callable
from typing import Any

from daedal.native.intrinsic import Intrinsic
from daedal.native.scope import KernelLike, is_kernel
from daedal.native.types import ArrayType, Kind, Scalar

__all__ = ["plain_call"]


class PlainArray:
    """A numpy array whose elements are Python numbers, and that refuses what `checked` refuses."""

    def __init__(self, array: Any, element: Scalar) -> None:
        self.array, self.element = array, element

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: int) -> Any:
        value = self.array[self._inside(index)].item()
        # Elements of u64 are kept as signed numbers, which is what the cast gives.
        return self.element(value) if self.element.kind is Kind.INT else value

    def __setitem__(self, index: int, value: Any) -> None:
        kept = self.element(value)
        if self.element.dtype.kind == "u" and kept < 0:
            kept += 1 << self.element.bits
        self.array[self._inside(index)] = kept

    def _inside(self, index: int) -> int:
        if not 0 <= index < len(self.array):
            raise IndexError(f"index {index} must lie inside an array of {len(self.array)}")
        return index


def _plain_function(kernel: KernelLike, known: dict[int, Callable[..., Any]]) -> Callable[..., Any]:
    """The kernel's function over a copy of its module's names, in which kernels are plain."""
    function = kernel.function
    names = dict(function.__globals__)
    made = types.FunctionType(function.__code__, names, function.__name__)
    known[id(kernel)] = made
    for name in function.__code__.co_names:
        value = names.get(name)
        if isinstance(value, Intrinsic):
            names[name] = value.plain
        elif is_kernel(value):
            found = known.get(id(value))
            names[name] = found if found is not None else _plain_function(value, known)  # type: ignore[arg-type]
    return made


def plain_call(kernel: KernelLike, arguments: tuple[Any, ...]) -> Any:
    """Call the Python function with arrays and records wrapped; records are copied back."""
    wrapped = []
    records = []
    for parameter, argument in zip(kernel.signature.parameters, arguments, strict=True):
        if isinstance(parameter.type, ArrayType):
            wrapped.append(PlainArray(argument, parameter.type.element))
        elif isinstance(parameter.type, Scalar):
            wrapped.append(parameter.type(argument))
        else:
            made = copy.copy(argument)
            for field in parameter.type.fields:
                if isinstance(field.type, ArrayType):
                    array = getattr(argument, field.name)
                    setattr(made, field.name, PlainArray(array, field.type.element))
            records.append((parameter.type, argument, made))
            wrapped.append(made)
    result = _plain_function(kernel, {})(*wrapped)
    for kind, target, made in records:
        for field in kind.fields:
            if isinstance(field.type, Scalar):
                value = getattr(made, field.name)
                setattr(target, field.name, field.type(value))
    return result
