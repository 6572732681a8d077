"""Runs a function of the loop IR as machine code, on numpy arrays."""

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler.codegen.llvm.function import function_text, parallel_extent
from daedal.compiler.tir.dtype import numpy_dtype
from daedal.compiler.tir.stmt import PrimFunc
from daedal.native.codegen import compile_text, compile_vectors, load_object
from daedal.native.cpu import Cpu

__all__ = ["run_machine_code"]

_Function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def run_machine_code(
    func: PrimFunc,
    inputs: Mapping[str, npt.NDArray[Any]],
    *,
    checked: bool = False,
    optimized: bool = False,
    cpu: Cpu | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """The outputs of `func` by name; IndexError where the checked form found a bad index.

    `cpu` is what it is compiled for, by default the processor at hand.
    The memory of the outputs is 0xA5 before, so what is not written differs.
    """
    text = function_text(func, "tested", checked=checked)
    code = load_object((compile_text if optimized else compile_vectors)(text, cpu), "tested")
    given = [np.ascontiguousarray(inputs[buffer.name]) for buffer in func.inputs]
    made = [
        np.frombuffer(
            b"\xa5" * (int(np.prod(item.shape)) * numpy_dtype(item.dtype).itemsize), np.uint8
        )
        .copy()
        .view(numpy_dtype(item.dtype))
        .reshape(item.shape)
        for item in func.outputs
    ]
    arrays = [*given, *made]
    addresses = (ctypes.c_void_p * len(arrays))(*(item.ctypes.data for item in arrays))
    status = _Function(code.address)(ctypes.addressof(addresses), 0, parallel_extent(func))
    if status:
        raise IndexError(func.name)
    return {buffer.name: array for buffer, array in zip(func.outputs, made, strict=True)}
