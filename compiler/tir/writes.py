"""Executes many instances of a store at once, with the same result as in sequence.

Stores of a nest are prepared first and committed together, once `in_order` has found that the inits
of its reduction may come before all of its updates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from daedal.compiler.tir.errors import ExecutionError
from daedal.compiler.tir.evaluate import Array
from daedal.compiler.tir.expr import Binary, Expr, Load, Or
from daedal.compiler.tir.memory import Memory, Places
from daedal.compiler.tir.points import Points
from daedal.compiler.tir.stmt import BufferStore
from daedal.compiler.tir.visit import loads

__all__ = ["Write", "in_order", "update_of"]

_UPDATES: dict[str, np.ufunc] = {"+": np.add, "max": np.maximum, "min": np.minimum}


def update_of(store: BufferStore) -> tuple[np.ufunc, Expr] | None:
    """The operator and operand of ``buffer[i] = buffer[i] op value``, where numpy has one."""
    match store.value:
        case Binary(op, a, b) if op in _UPDATES:
            ufunc = _UPDATES[op]
        case Or(a, b):
            ufunc = np.logical_or
        case _:
            return None
    target = Load(store.buffer, store.indices)
    if a != target or any(load.buffer is store.buffer for load in loads(b)):
        return None
    return ufunc, b


@dataclass(frozen=True)
class Write:
    """``memory[places] = value``, or with `ufunc` ``memory[places] = ufunc(that, value)``.

    Parameters
    ----------
    places, value : of one dimension per dimension of `points`, of size 1 where they are constant.
    """

    memory: Memory
    points: Points
    places: Places
    value: Array
    ufunc: np.ufunc | None = None

    @property
    def repeated(self) -> tuple[int, ...]:
        """The dimensions along which the same places are written again and again."""
        pairs = zip(self.places.shape, self.points.shape, strict=True)
        return tuple(dim for dim, (own, size) in enumerate(pairs) if own == 1 < size)

    def commit(self) -> None:
        """Write.

        Raises
        ------
        ExecutionError
            An update meets an element that was never written.
        """
        memory = self.memory
        if self.ufunc is None:
            self._assign()
        elif not memory.written[self.places].all():
            raise ExecutionError(f"{memory.buffer.name!r} is accumulated into before it is written")
        elif memory.data.dtype.kind == "f":
            self._update_in_steps(self.ufunc)
        else:
            self._update(self.ufunc, self._combined(self.ufunc))
        memory.written[self.places] = True

    def _assign(self) -> None:
        last = self.value
        for dim in self.repeated:
            last = np.take(last, [-1], axis=dim)
        if self.memory.distinct(self.places):
            self.memory.data[self.places] = last
        else:
            # In one dimension numpy assigns in order, so the last value of a place remains.
            flat = np.broadcast_to(last, self.places.shape).reshape(-1)
            self.memory.data[self.places.reshape(-1)] = flat

    def _combined(self, ufunc: np.ufunc) -> Array:
        """The value combined over `repeated`; integers give the same in any order."""
        dtype = self.memory.data.dtype
        axes = tuple(dim for dim in self.repeated if self.value.shape[dim] > 1)
        value = ufunc.reduce(self.value, axis=axes, keepdims=True, dtype=dtype)
        times = prod(self.points.shape[dim] for dim in self.repeated if dim not in axes)
        if ufunc is np.add and times > 1:
            value = value * np.asarray(times).astype(dtype)
        return value

    def _update_in_steps(self, ufunc: np.ufunc) -> None:
        """Floats round: each element takes its operands one by one, in order."""
        if not self.memory.distinct(self.places):
            shape = self.points.shape
            places = np.broadcast_to(self.places, shape).reshape(-1)
            ufunc.at(self.memory.data, places, np.broadcast_to(self.value, shape).reshape(-1))
            return
        for point in np.ndindex(*(self.points.shape[dim] for dim in self.repeated)):
            value = self.value
            for dim, position in zip(self.repeated, point, strict=True):
                if value.shape[dim] > 1:
                    value = np.take(value, [position], axis=dim)
            self._update(ufunc, value)

    def _update(self, ufunc: np.ufunc, value: Array) -> None:
        data = self.memory.data
        if self.memory.distinct(self.places):
            data[self.places] = ufunc(data[self.places], value)
        else:
            flat = np.broadcast_to(value, self.places.shape).reshape(-1)
            ufunc.at(data, self.places.reshape(-1), flat)


def in_order(inits: Sequence[Write], updates: Sequence[Write]) -> bool:
    """Whether no element is initialized twice, or after it was updated, in the order of `marks`."""
    for init in inits:
        numbers = init.memory.numbers
        mine = [update for update in updates if update.memory is init.memory]
        for update in mine:
            numbers[update.places] = 0
        position = _sum(init.points.marks) + 1
        if np.broadcast_shapes(position.shape, init.places.shape) != init.places.shape:
            return False
        numbers[init.places] = position
        if not (numbers[init.places] == position).all():
            return False
        for update in mine:
            if not (numbers[update.places] <= _first(update) + 1).all():
                return False
    return True


def _first(update: Write) -> Array:
    """The smallest mark at which each place is updated."""
    marks = []
    for mark in update.points.marks:
        for dim in update.repeated:
            mark = mark[(slice(None),) * dim + (slice(0, 1),)]
        marks.append(mark)
    return _sum(marks)


def _sum(marks: Sequence[Array]) -> Array:
    total = np.zeros((), dtype=np.int64)
    for mark in marks:
        total = total + mark
    return total
