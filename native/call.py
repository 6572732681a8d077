"""Calls machine code from Python: packs arguments into a block, and copies results back."""

import ctypes
import struct
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from daedal.common.errors import KernelError
from daedal.native.codegen import LoadedCode
from daedal.native.failure import read_failure
from daedal.native.module_text import HEADER_SLOTS
from daedal.native.record import BOOL, RecordType, record_type
from daedal.native.scope import KernelLike
from daedal.native.signature import Parameter, where
from daedal.native.types import ArrayType, Kind, Scalar

__all__ = ["MachineCall"]

Packer = Callable[[Any, list[Any]], None]


class MachineCall:
    """A compiled kernel. As with any function, two threads must not share arrays in their calls."""

    def __init__(self, code: LoadedCode, kernel: KernelLike, kernels: list[KernelLike]) -> None:
        self._code = code
        self._kernel, self._kernels = kernel, kernels
        parameters = kernel.signature.parameters
        self._packers = [_packer(item, kernel) for item in parameters]
        formats = "".join(_format(item) for item in parameters)
        result = kernel.signature.result
        self._struct = struct.Struct(f"={'d' if result is Kind.FLOAT else 'q'}q{formats}")
        self._records = []
        slot = HEADER_SLOTS
        for position, item in enumerate(parameters):
            if isinstance(item.type, RecordType):
                scalars = [
                    (field.name, slot + field.slot, field.type is BOOL)
                    for field in item.type.fields
                    if isinstance(field.type, Scalar)
                ]
                self._records.append((position, scalars))
            slot += item.slots
        self._function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address)
        self._result = result

    def __call__(self, *arguments: Any) -> Any:
        """Run it; scalar fields of records are brought up to date."""
        if len(arguments) != len(self._packers):
            raise KernelError(
                f"kernel {self._kernel.function.__name__!r} takes {len(self._packers)} arguments, "
                f"not {len(arguments)}"
            )
        values: list[Any] = [0, 0]
        for packer, argument in zip(self._packers, arguments, strict=True):
            packer(argument, values)
        block = ctypes.create_string_buffer(self._struct.size)
        self._struct.pack_into(block, 0, *values)
        self._function(ctypes.addressof(block))
        after = self._struct.unpack_from(block, 0)
        for position, scalars in self._records:
            target = arguments[position]
            for name, slot, is_bool in scalars:
                setattr(target, name, bool(after[slot]) if is_bool else after[slot])
        if after[1]:
            self._raise(after[1])
        if self._result is None:
            return None
        return bool(after[0]) if self._result is Kind.BOOL else after[0]

    def _raise(self, status: int) -> None:
        number, line, failure = read_failure(status)
        function = self._kernels[number].function
        raise failure.exception(
            f"{failure.sentence} ({where(function, line)}, kernel {function.__name__!r})"
        )


def _format(parameter: Parameter) -> str:
    kind = parameter.type
    if isinstance(kind, RecordType):
        return "".join(_format(Parameter(item.name, item.type)) for item in kind.fields)
    if isinstance(kind, ArrayType):
        return "Qq"
    return "d" if kind.kind is Kind.FLOAT else "q"


def _packer(parameter: Parameter, kernel: KernelLike) -> Packer:
    what = f"argument {parameter.name!r} of kernel {kernel.function.__name__!r}"
    kind = parameter.type
    if isinstance(kind, RecordType):
        return _record_packer(kind, what)
    if isinstance(kind, ArrayType):
        return _array_packer(kind, what)
    return _scalar_packer(kind, what)


def _scalar_packer(kind: Scalar, what: str) -> Packer:
    def pack_integer(value: Any, values: list[Any]) -> None:
        try:
            values.append(kind(value))
        except (TypeError, ValueError):
            raise KernelError(f"{what} must be a number, not {value!r}") from None

    def pack_bool(value: Any, values: list[Any]) -> None:
        values.append(1 if value else 0)

    return pack_bool if kind is BOOL else pack_integer


def _array_packer(kind: ArrayType, what: str) -> Packer:
    dtype = kind.element.dtype

    def pack(value: Any, values: list[Any]) -> None:
        if (
            not isinstance(value, np.ndarray)
            or value.dtype != dtype
            or value.ndim != 1
            or not (flags := value.flags).c_contiguous
            or not flags.writeable
        ):
            raise KernelError(f"{what} must be {_wanted(dtype)}, not {_describe(value)}")
        values.append(value.__array_interface__["data"][0])
        values.append(value.size)

    return pack


def _wanted(dtype: np.dtype[Any]) -> str:
    return f"a 1-D C-contiguous writable array of {dtype.name}"


def _describe(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    layout = "contiguous" if value.flags.c_contiguous else "strided"
    access = "writable" if value.flags.writeable else "read-only"
    return f"a {value.ndim}-D {layout} {access} array of {value.dtype.name}"


def _record_packer(kind: RecordType, what: str) -> Packer:
    packers = [
        _packer_of_field(item.type, f"field {item.name!r} of {what}") for item in kind.fields
    ]
    names = [item.name for item in kind.fields]
    get = attrgetter(*names) if len(names) > 1 else lambda item: (getattr(item, names[0]),)

    def pack(value: Any, values: list[Any]) -> None:
        if record_type(type(value)) is not kind:
            raise KernelError(f"{what} must be a record {kind.name}, not {type(value).__name__}")
        for packer, item in zip(packers, get(value), strict=True):
            packer(item, values)

    return pack


def _packer_of_field(kind: Scalar | ArrayType, what: str) -> Packer:
    return _array_packer(kind, what) if isinstance(kind, ArrayType) else _scalar_packer(kind, what)
