"""Many instances of a nest of loops at once: one array dimension per loop, in execution order.

The array of a variable extends only along the dimensions that it depends on, so indices and
operands have only the size of their loops; numpy broadcasts them when they are combined.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np
import numpy.typing as npt

from daedal.compiler.tir.dtype import INDEX_DTYPE
from daedal.compiler.tir.evaluate import Array
from daedal.compiler.tir.expr import Var

__all__ = ["Points"]


@dataclass(frozen=True)
class Points:
    """Instances; their order is that of the elements of an array of `shape` in C order.

    Parameters
    ----------
    shape : iterations by dimension.
    env : the value of each variable: arrays of as many dimensions, of size 1 where it is constant.
    marks : arrays like those of `env` whose sum counts up with the instances of an enclosing block.
    """

    shape: tuple[int, ...]
    env: Mapping[Var, Array]
    marks: tuple[Array, ...] = field(default=())

    @classmethod
    def single(cls, env: Mapping[Var, int]) -> "Points":
        """One instance, without dimensions."""
        return cls((), {var: np.asarray(value, INDEX_DTYPE) for var, value in env.items()})

    @property
    def count(self) -> int:
        """How many instances there are."""
        return prod(self.shape)

    def whole(self, value: Array) -> Array:
        """`value` with all dimensions, those it lacks of size 1."""
        array = np.asarray(value)
        return array if array.ndim else array.reshape((1,) * len(self.shape))

    def over(self, var: Var, values: range) -> "Points":
        """Each instance once for every one of `values` of `var`, a loop inside."""
        own = np.arange(values.start, values.stop, dtype=INDEX_DTYPE)
        env = {other: array[..., None] for other, array in self.env.items()}
        env[var] = own.reshape((1,) * len(self.shape) + (-1,))
        marks = tuple(mark[..., None] for mark in self.marks)
        return Points((*self.shape, len(own)), env, marks)

    def bound(self, values: Mapping[Var, Array]) -> "Points":
        """The same instances, speaking of other variables."""
        return Points(self.shape, {var: self.whole(v) for var, v in values.items()}, self.marks)

    def marked(self) -> "Points":
        """With `marks` that number these instances, and keep their number in loops inside."""
        stride, marks = 1, []
        for dim in reversed(range(len(self.shape))):
            size = self.shape[dim]
            if size > 1:
                along = [1] * len(self.shape)
                along[dim] = size
                marks.append((np.arange(size) * stride).reshape(along))
            stride *= size
        return Points(self.shape, self.env, tuple(marks))

    def where(self, condition: Array) -> "Points":
        """The instances where `condition` holds, in the same order."""
        mask = self.whole(condition)
        if mask.all():
            return self
        dims = [dim for dim, size in enumerate(mask.shape) if size > 1]
        if not mask.any():
            return Points((0,), {})
        shadows = [mask.any(axis=tuple(d for d in dims if d != dim)).reshape(-1) for dim in dims]
        if prod(int(shadow.sum()) for shadow in shadows) == int(mask.sum()):
            # The condition is a box of the dimensions that it speaks of: cut each by itself.
            result = self
            for dim, shadow in zip(dims, shadows, strict=True):
                result = result._kept(dim, np.flatnonzero(shadow))
            return result
        low, high = dims[0], dims[-1] + 1
        joined = self._joined(low, high)
        span = np.broadcast_to(mask, (*mask.shape[:low], *self.shape[low:high], *mask.shape[high:]))
        return joined._kept(low, np.flatnonzero(span.reshape(-1)))

    def _kept(self, dim: int, positions: npt.NDArray[np.int64]) -> "Points":
        """Only these positions of one dimension."""

        def cut(array: Array) -> Array:
            return array if array.shape[dim] == 1 else np.take(array, positions, axis=dim)

        shape = (*self.shape[:dim], len(positions), *self.shape[dim + 1 :])
        return self._mapped(shape, cut)

    def _joined(self, low: int, high: int) -> "Points":
        """Dimensions [low, high) as one."""
        inside = self.shape[low:high]

        def flat(array: Array) -> Array:
            head, middle, tail = array.shape[:low], array.shape[low:high], array.shape[high:]
            if prod(middle) == 1:
                return array.reshape((*head, 1, *tail))
            return np.broadcast_to(array, (*head, *inside, *tail)).reshape((*head, -1, *tail))

        return self._mapped((*self.shape[:low], prod(inside), *self.shape[high:]), flat)

    def _mapped(self, shape: tuple[int, ...], change: Callable[[Array], Array]) -> "Points":
        env = {var: change(array) for var, array in self.env.items()}
        return Points(shape, env, tuple(change(mark) for mark in self.marks))
