"""`check_code`: whether a tensor's formula has code, before anything is scheduled."""

from daedal.common.errors import UnsupportedError
from daedal.compiler.codegen.llvm.intrinsics import is_lowered
from daedal.compiler.te import Tensor
from daedal.compiler.tir.expr import Call, Cast
from daedal.compiler.tir.visit import walk

__all__ = ["check_code"]


def check_code(tensor: Tensor) -> None:
    """Raise UnsupportedError for an operation that the code generator has not.

    Float16 to and from float64 rounds once in no instruction of most processors.
    """
    for node in walk(tensor.value) if tensor.value is not None else ():
        if isinstance(node, Call) and not is_lowered(node.name):
            raise UnsupportedError(
                f"functions of compiled code must be those of its generator, not {node.name!r}; "
                "it is interpreted"
            )
        kinds = {node.dtype, node.value.dtype} if isinstance(node, Cast) else set[str]()
        if "float64" in kinds and kinds & {"float16", "bfloat16"}:
            half = max(kinds - {"float64"})
            raise UnsupportedError(
                f"compiled code must not convert float64 to {half}, which would round twice; it is "
                "interpreted"
            )
