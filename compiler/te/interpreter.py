"""The meaning of tensor expressions on numpy arrays, independent of loops and schedules."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler.te.lower import topological
from daedal.compiler.te.reduction import combine, identity
from daedal.compiler.te.tensor import Tensor
from daedal.compiler.tir.dtype import is_float, numpy_dtype
from daedal.compiler.tir.errors import ExecutionError
from daedal.compiler.tir.evaluate import Array, evaluate, numpy_number
from daedal.compiler.tir.expr import Axis, Buffer, Expr, Load, Reduce, Var

__all__ = ["evaluate_tensors"]

MAX_TERMS = 1 << 18
"""Largest number of terms of a reduction that are formed at once: half a megabyte to two."""

_ALL_AT_ONCE: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "any": np.logical_or,
}


def evaluate_tensors(
    outputs: Sequence[Tensor], inputs: Mapping[str, npt.NDArray[np.generic]]
) -> list[npt.NDArray[Any]]:
    """The values of `outputs` where placeholders take the arrays of `inputs` by name.

    Raises
    ------
    ExecutionError
        For a missing input, one of the wrong shape or dtype, or a read outside a tensor.
    """
    values: dict[Buffer, Array] = {}
    for tensor in topological(outputs):
        if tensor.value is None:
            array = inputs.get(tensor.name)
            wanted = f"{numpy_dtype(tensor.dtype)}{list(tensor.shape)}"
            given = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
            if given != wanted:
                raise ExecutionError(f"{tensor.name!r} must be given as {wanted}, not {given}")
            values[tensor] = array
        else:
            values[tensor] = _Formula(tensor, values).evaluate(tensor.value)
    return [values[tensor] for tensor in outputs]


class _Formula:
    """One tensor's formula, evaluated for all elements at once: one dimension per axis."""

    def __init__(self, tensor: Tensor, values: Mapping[Buffer, Array]) -> None:
        self.tensor = tensor
        self.values = values
        self.dtype = numpy_dtype(tensor.dtype)

    def evaluate(self, value: Expr) -> Array:
        """All elements."""
        shape = self.tensor.shape
        if isinstance(value, Reduce):
            return self._reduce(value)
        env = _dimensions(self.tensor.axes)
        return np.broadcast_to(evaluate(value, env, self._read), shape).astype(self.dtype)

    def _reduce(self, value: Reduce) -> Array:
        """Steps through the axes in order; integers take the innermost ones in one step."""
        tensor, inner = self.tensor, self._inner_axes(value)
        outer = value.axes[: len(value.axes) - len(inner)]
        dims = (*tensor.axes, *inner)
        shape = tuple(axis.extent for axis in dims)
        summed = tuple(range(len(tensor.axes), len(dims)))
        so_far, step = Var("so_far", tensor.dtype), Var("step", tensor.dtype)
        merge = combine(value.op, so_far, step)
        total = np.full(tensor.shape, evaluate(identity(value.op, tensor.dtype), {}, self._read))
        env = _dimensions(dims)
        for point in itertools.product(*(range(axis.extent) for axis in outer)):
            here: dict[Var, Array] = {**env, **dict(zip(outer, point, strict=True))}
            term = np.asarray(evaluate(value.value, here, self._read)).astype(self.dtype)
            if inner:
                term = _ALL_AT_ONCE[value.op].reduce(
                    np.broadcast_to(term, shape), axis=summed, dtype=self.dtype
                )
            total = evaluate(merge, {so_far: total, step: term}, self._read)
        return total

    def _inner_axes(self, value: Reduce) -> tuple[Axis, ...]:
        """The innermost axes that may be combined in any order, and not too many terms."""
        if is_float(self.tensor.dtype):
            return ()
        count, first = int(np.prod(self.tensor.shape)), len(value.axes)
        while first and count * value.axes[first - 1].extent <= MAX_TERMS:
            first -= 1
            count *= value.axes[first].extent
        return value.axes[first:]

    def _read(self, load: Load, indices: list[Array]) -> Array:
        array = self.values[load.buffer]
        inside = np.asarray(True)
        clipped = []
        for dim, (index, size) in enumerate(zip(indices, array.shape, strict=True)):
            within = (np.asarray(index) >= 0) & (np.asarray(index) < size)
            if load.pad_value is None and not within.all():
                raise ExecutionError(
                    f"{self.tensor.name!r} reads {load.buffer.name!r} at {np.min(index)}.."
                    f"{np.max(index)} in dimension {dim} of size {size}"
                )
            inside = inside & within
            clipped.append(np.clip(index, 0, size - 1))
        found = array[tuple(clipped)]
        if load.pad_value is None:
            return found
        return np.where(inside, found, numpy_number(load.pad_value, load.dtype))


def _dimensions(axes: Sequence[Axis]) -> dict[Var, Array]:
    """The values of each axis along a dimension of its own."""
    found: dict[Var, Array] = {}
    for dim, axis in enumerate(axes):
        shape = [1] * len(axes)
        shape[dim] = axis.extent
        found[axis] = np.arange(axis.extent, dtype=np.int32).reshape(shape)
    return found
