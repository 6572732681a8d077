"""Readable text of tensor expressions, one line per tensor."""

from collections.abc import Sequence

from daedal.compiler.te.lower import topological
from daedal.compiler.te.tensor import Tensor
from daedal.compiler.tir.printer import expr_text

__all__ = ["tensor_text", "tensors_text"]


def tensor_text(tensor: Tensor) -> str:
    """``y[i:4, j:8] int32 = sum(x[i, k], over k in 3)``; an input shows its type alone."""
    if tensor.value is None:
        return f"{tensor.name}: {tensor.dtype}[{', '.join(map(str, tensor.shape))}]"
    axes = ", ".join(f"{axis.name}:{axis.extent}" for axis in tensor.axes)
    return f"{tensor.name}[{axes}] {tensor.dtype} = {expr_text(tensor.value)}"


def tensors_text(outputs: Sequence[Tensor]) -> str:
    """`outputs` and everything they need, producers first, ending in a line break."""
    return "".join(tensor_text(tensor) + "\n" for tensor in topological(outputs))
