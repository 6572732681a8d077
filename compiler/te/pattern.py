"""Patterns of tensor intrinsics, written as tensor expressions."""

from daedal.compiler.te.lower import tensor_block
from daedal.compiler.te.tensor import Tensor
from daedal.compiler.tir.dtype import INDEX_DTYPE
from daedal.compiler.tir.expr import Buffer
from daedal.compiler.tir.intrin import Scalar
from daedal.compiler.tir.stmt import Block

__all__ = ["pattern", "scalar"]


def scalar(name: str, dtype: str = INDEX_DTYPE) -> Scalar:
    """A constant that a pattern leaves open; the match says its value."""
    return Scalar(name, dtype)


def pattern(tensor: Tensor) -> Block:
    """The block that computes `tensor` from its inputs, as a pattern for `TensorIntrin`."""
    names = (tensor, *tensor.inputs)
    buffers: dict[Buffer, Buffer] = {t: Buffer(t.name, t.shape, t.dtype) for t in names}
    return tensor_block(tensor, buffers)
