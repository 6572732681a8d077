"""The meaning of tensor expressions on numpy arrays, independent of loops and schedules."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler.te.lower import topological
from daedal.compiler.te.reduction import combine, identity
from daedal.compiler.te.tensor import Tensor
from daedal.compiler.tir.dtype import numpy_dtype
from daedal.compiler.tir.errors import ExecutionError
from daedal.compiler.tir.evaluate import Array, evaluate
from daedal.compiler.tir.expr import Buffer, Expr, Load, Reduce, Var

__all__ = ["evaluate_tensors"]


def evaluate_tensors(
    outputs: Sequence[Tensor], inputs: Mapping[str, npt.NDArray[np.generic]]
) -> list[npt.NDArray[Any]]:
    """The values of `outputs` where placeholders take the arrays of `inputs` by name.

    Raises
    ------
    ExecutionError
        For a missing input or one of the wrong shape.
    """
    values: dict[Buffer, Array] = {}
    for tensor in topological(outputs):
        if tensor.value is None:
            array = inputs.get(tensor.name)
            if array is None or array.shape != tensor.shape:
                given = "nothing" if array is None else f"{list(array.shape)}"
                raise ExecutionError(
                    f"{tensor.name!r} must be given as {list(tensor.shape)}, not {given}"
                )
            values[tensor] = np.asarray(array, dtype=numpy_dtype(tensor.dtype))
        else:
            values[tensor] = _compute(tensor, tensor.value, values)
    return [values[tensor] for tensor in outputs]


def _compute(tensor: Tensor, value: Expr, values: dict[Buffer, Array]) -> Array:
    """All elements at once; a reduction steps through its axes in order."""
    env: dict[Var, Array] = {}
    for dim, axis in enumerate(tensor.axes):
        shape = [1] * len(tensor.axes)
        shape[dim] = axis.extent
        env[axis] = np.arange(axis.extent).reshape(shape)

    def read(load: Load, indices: list[Array]) -> Array:
        return _gather(values[load.buffer], load, indices)

    dtype = numpy_dtype(tensor.dtype)
    if not isinstance(value, Reduce):
        return np.broadcast_to(evaluate(value, env, read), tensor.shape).astype(dtype)
    so_far, step = Var("so_far", tensor.dtype), Var("step", tensor.dtype)
    merge = combine(value.op, so_far, step)
    total = np.broadcast_to(evaluate(identity(value.op, tensor.dtype), {}, read), tensor.shape)
    total = total.astype(dtype)
    for point in itertools.product(*(range(axis.extent) for axis in value.axes)):
        here: dict[Var, Array] = {**env}
        here.update(zip(value.axes, point, strict=True))
        term = np.asarray(evaluate(value.value, here, read)).astype(dtype)
        total = np.asarray(evaluate(merge, {so_far: total, step: term}, read)).astype(dtype)
    return total


def _gather(array: Array, load: Load, indices: list[Array]) -> Array:
    whole = [np.asarray(index) for index in indices]
    if load.pad_value is None:
        return array[tuple(whole)]
    inside = np.asarray(True)
    clipped = []
    for index, size in zip(whole, array.shape, strict=True):
        inside = inside & (index >= 0) & (index < size)
        clipped.append(np.clip(index, 0, size - 1))
    return np.where(inside, array[tuple(clipped)], np.asarray(load.pad_value, dtype=array.dtype))
