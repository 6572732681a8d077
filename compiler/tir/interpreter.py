"""The meaning of the loop IR: executes a function on numpy arrays, in order, checking every access.

Loops and blocks around a single store run as one numpy operation where that cannot change the
result; everything else runs statement by statement. Reading an element that was never written, or
one outside a buffer or its window, raises ExecutionError: the interpreter proves region inference
right, point by point.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from daedal.compiler.tir.dtype import numpy_dtype
from daedal.compiler.tir.errors import ExecutionError
from daedal.compiler.tir.evaluate import Array, evaluate
from daedal.compiler.tir.expr import Binary, Buffer, Expr, Load, Or, Var
from daedal.compiler.tir.stmt import (
    Allocate,
    BlockRealize,
    BufferStore,
    For,
    PrimFunc,
    Seq,
    Stmt,
)
from daedal.compiler.tir.visit import loads

__all__ = ["run"]

MAX_POINTS = 1 << 20
"""Largest number of instances run as one numpy operation."""

_UPDATES: dict[str, np.ufunc] = {"+": np.add, "max": np.maximum, "min": np.minimum}


def run(func: PrimFunc, inputs: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, Array]:
    """Execute `func`; returns its outputs by name.

    Raises
    ------
    ExecutionError
        For a missing input, one of the wrong shape or dtype, or an illegal access.
    """
    machine = _Machine()
    for buffer in func.inputs:
        array = inputs.get(buffer.name)
        if array is None:
            raise ExecutionError(f"{func.name} needs an input {buffer.name!r}; pass it by name")
        if array.shape != buffer.shape or array.dtype != numpy_dtype(buffer.dtype):
            raise ExecutionError(
                f"input {buffer.name!r} must be {buffer.dtype}{list(buffer.shape)}, "
                f"not {array.dtype}{list(array.shape)}"
            )
        machine.memory[buffer] = _Memory(
            array, np.ones(buffer.shape, dtype=bool), (0,) * array.ndim
        )
    for buffer in func.outputs:
        machine.memory[buffer] = _fresh(buffer, buffer.shape, (0,) * len(buffer.shape))
    machine.execute(func.body, {})
    for buffer in func.outputs:
        if not machine.memory[buffer].written.all():
            raise ExecutionError(
                f"output {buffer.name!r} of {func.name} was not written completely"
            )
    return {buffer.name: machine.memory[buffer].data for buffer in func.outputs}


class _Memory:
    """The backed window of a buffer: its data, which elements were written, and where it begins."""

    def __init__(self, data: Array, written: Array, origin: tuple[int, ...]) -> None:
        self.data, self.written, self.origin = data, written, origin


def _fresh(buffer: Buffer, shape: tuple[int, ...], origin: tuple[int, ...]) -> _Memory:
    return _Memory(
        np.zeros(shape, dtype=numpy_dtype(buffer.dtype)), np.zeros(shape, dtype=bool), origin
    )


def _points_at_once(stmt: Stmt) -> int | None:
    """How many stores `stmt` makes, where they may run as one numpy operation; else None.

    It may where loops and blocks enclose a single store, which reads of its own buffer at most the
    element it accumulates into.
    """
    match stmt:
        case For(_, extent, body):
            inside = _points_at_once(body)
            return None if inside is None else extent * inside
        case BlockRealize(_, block):
            if block.init is not None and _points_at_once(block.init) is None:
                return None
            return _points_at_once(block.body)
        case BufferStore(buffer, _, value):
            feeds_back = any(load.buffer is buffer for load in loads(value))
            return None if feeds_back and _update(stmt) is None else 1
    return None


def _one_point(env: dict[Var, Array]) -> dict[Var, Array]:
    """`env` as arrays of one point."""
    return {var: np.full(1, value) for var, value in env.items()}


class _Machine:
    def __init__(self) -> None:
        self.memory: dict[Buffer, _Memory] = {}

    def execute(self, stmt: Stmt, env: dict[Var, Array]) -> None:
        match stmt:
            case Seq(body):
                for part in body:
                    self.execute(part, env)
            case For():
                count = _points_at_once(stmt)
                if count is not None and count <= MAX_POINTS:
                    self._at_once(stmt, _one_point(env), 1)
                    return
                for value in range(stmt.extent):
                    self.execute(stmt.body, {**env, stmt.var: value})
            case Allocate(allocations, body):
                for item in allocations:
                    origin = tuple(int(self._value(part.min, env)) for part in item.window)
                    self.memory[item.buffer] = _fresh(item.buffer, item.shape, origin)
                self.execute(body, env)
                for item in allocations:
                    del self.memory[item.buffer]
            case BlockRealize():
                self._execute_block(stmt, env)
            case _:
                raise AssertionError(f"cannot execute {stmt!r}")

    def _execute_block(self, stmt: BlockRealize, env: dict[Var, Array]) -> None:
        block = stmt.block
        if isinstance(block.body, BufferStore):
            self._at_once(stmt, _one_point(env), 1)
            return
        if stmt.predicate is not None and not self._value(stmt.predicate, env):
            return
        inner = dict(env)
        for axis, value in zip(block.iter_vars, stmt.values, strict=True):
            inner[axis] = int(self._value(value, env))
        if block.init is not None and all(inner[axis] == 0 for axis in block.reduce_vars):
            self.execute(block.init, inner)
        self.execute(block.body, inner)

    def _at_once(self, stmt: Stmt, points: dict[Var, Array], count: int) -> None:
        """Run `stmt` at `count` points together; `points` holds arrays in execution order.

        All inits run before all updates: an element's init comes before its updates in any order.
        """
        match stmt:
            case For(var, extent, body):
                inner = {other: np.repeat(value, extent) for other, value in points.items()}
                inner[var] = np.tile(np.arange(extent), count)
                self._at_once(body, inner, count * extent)
            case BlockRealize(values, block, predicate):
                if predicate is not None:
                    holds = np.broadcast_to(self._value(predicate, points), (count,))
                    points = {var: value[holds] for var, value in points.items()}
                    count = int(holds.sum())
                if count == 0:
                    return
                own: dict[Var, Array] = {
                    axis: np.broadcast_to(self._value(value, points), (count,))
                    for axis, value in zip(block.iter_vars, values, strict=True)
                }
                if block.init is not None:
                    first = np.ones(count, dtype=bool)
                    for axis in block.reduce_vars:
                        first &= own[axis] == 0
                    if first.any():
                        start = {axis: value[first] for axis, value in own.items()}
                        self._at_once(block.init, start, int(first.sum()))
                self._at_once(block.body, own, count)
            case BufferStore():
                self._store(stmt, points, count)
            case _:
                raise AssertionError(f"cannot run at once: {stmt!r}")

    def _store(self, store: BufferStore, env: dict[Var, Array], count: int) -> None:
        memory = self.memory[store.buffer]
        where = self._locate(
            store.buffer, memory, [self._value(index, env) for index in store.indices], count
        )
        update = _update(store)
        if update is None:
            memory.data[where] = np.asarray(self._value(store.value, env)).astype(memory.data.dtype)
        else:
            ufunc, value = update
            if not memory.written[where].all():
                raise ExecutionError(
                    f"{store.buffer.name!r} is accumulated into before it is written"
                )
            operand = np.asarray(self._value(value, env)).astype(memory.data.dtype)
            ufunc.at(memory.data, where, operand)
        memory.written[where] = True

    def _value(self, expr: Expr, env: dict[Var, Array]) -> Array:
        return evaluate(expr, env, self._read)

    def _read(self, load: Load, indices: list[Array]) -> Array:
        memory = self.memory[load.buffer]
        count = max(np.size(index) for index in indices)
        if load.pad_value is None:
            where = self._locate(load.buffer, memory, indices, count)
            if not memory.written[where].all():
                raise ExecutionError(f"{load.buffer.name!r} is read before it is written")
            return memory.data[where]
        inside = np.ones(count, dtype=bool)
        for index, size in zip(indices, load.buffer.shape, strict=True):
            inside &= (np.asarray(index) >= 0) & (np.asarray(index) < size)
        result = np.full(count, load.pad_value, dtype=memory.data.dtype)
        if inside.any():
            kept = [np.broadcast_to(index, (count,))[inside] for index in indices]
            result[inside] = self._read(Load(load.buffer, load.indices), kept)
        return result

    def _locate(
        self, buffer: Buffer, memory: _Memory, indices: list[Array], count: int
    ) -> tuple[Array, ...]:
        """Window coordinates of logical indices, all of shape (count,)."""
        where = []
        for dim, index in enumerate(indices):
            own = np.broadcast_to(index, (count,)) - memory.origin[dim]
            low, high = int(own.min()), int(own.max())
            begin, size = memory.origin[dim], memory.data.shape[dim]
            if low < 0 or high >= size or high + begin >= buffer.shape[dim] or low + begin < 0:
                raise ExecutionError(
                    f"index {low + begin}..{high + begin} is outside {begin}..{begin + size - 1} "
                    f"(dimension {dim} of {buffer.name!r})"
                )
            where.append(own)
        return tuple(where)


def _update(store: BufferStore) -> tuple[np.ufunc, Expr] | None:
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
