"""Readable text of a program of tensor expressions, one line per tensor; `str` gives one."""

from collections.abc import Sequence

from daedal.compiler.te.lower import topological
from daedal.compiler.te.tensor import Tensor

__all__ = ["tensors_text"]


def tensors_text(outputs: Sequence[Tensor]) -> str:
    """`outputs` and everything they need, producers first, ending in a line break."""
    return "".join(f"{tensor}\n" for tensor in topological(outputs))
