"""`check_gpu_code`: whether a tensor's formula has code for GPUs, before anything is scheduled."""

from daedal.common.errors import UnsupportedError
from daedal.compiler.codegen.llvm.support import check_code
from daedal.compiler.te import Tensor
from daedal.compiler.tir.expr import Call
from daedal.compiler.tir.visit import walk

__all__ = ["check_gpu_code"]

_FLOAT64 = frozenset(("abs", "ceil", "floor", "fmod", "round", "rsqrt", "sqrt", "trunc"))
"""Functions that GPUs compute in float64; all others are of float32 there."""


def check_gpu_code(tensor: Tensor) -> None:
    """Raise UnsupportedError for an operation that GPUs have no code for."""
    check_code(tensor)
    for node in walk(tensor.value) if tensor.value is not None else ():
        if isinstance(node, Call) and node.dtype == "float64" and node.name not in _FLOAT64:
            raise UnsupportedError(
                f"functions of float64 on a GPU must be {', '.join(sorted(_FLOAT64))}, not "
                f"{node.name!r}; it is interpreted"
            )
