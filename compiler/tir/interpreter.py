"""The semantics of the loop IR: executes a function on numpy arrays, and checks every access.

Loops and blocks around a single store run as numpy operations over all their instances if that
cannot change the result (`daedal.compiler.tir.writes`). Everything else runs statement by
statement. Reading an element that was never written, or one outside a buffer or its window, raises
ExecutionError, so a run checks region inference point by point.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from daedal.compiler.tir.condition import conjuncts
from daedal.compiler.tir.dtype import numpy_dtype
from daedal.compiler.tir.errors import ExecutionError
from daedal.compiler.tir.evaluate import Array, evaluate
from daedal.compiler.tir.expr import Buffer, Expr, Load, Var
from daedal.compiler.tir.memory import Memory
from daedal.compiler.tir.points import Points
from daedal.compiler.tir.stmt import (
    Allocate,
    Barrier,
    BeginArrivals,
    BlockRealize,
    BufferStore,
    CommitCopies,
    CommitProducts,
    ExpectBoxes,
    FenceSums,
    For,
    If,
    Prefetch,
    PrimFunc,
    Seq,
    Stmt,
    WaitForBoxes,
    WaitForCopies,
    WaitForProducts,
)
from daedal.compiler.tir.visit import loads
from daedal.compiler.tir.writes import Write, in_order, update_of

__all__ = ["run"]

MAX_POINTS = 1 << 20
"""Largest number of instances run at once: a megabyte or a few per intermediate array."""


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
        machine.memory[buffer] = Memory(buffer, buffer.shape, (0,) * array.ndim, array)
    for buffer in func.outputs:
        machine.memory[buffer] = Memory(buffer, buffer.shape, (0,) * len(buffer.shape))
    machine.execute(func.body, {})
    for buffer in func.outputs:
        if not machine.memory[buffer].written.all():
            raise ExecutionError(
                f"output {buffer.name!r} of {func.name} was not written completely"
            )
    return {buffer.name: machine.memory[buffer].array for buffer in func.outputs}


class _Machine:
    """Executes statements one after the other, and the loops around a single store at once."""

    def __init__(self) -> None:
        self.memory: dict[Buffer, Memory] = {}
        self._counts: dict[int, int | None] = {}

    def execute(self, stmt: Stmt, env: dict[Var, int]) -> None:
        match stmt:
            case Seq(body):
                for part in body:
                    self.execute(part, env)
            case For():
                self._loop(stmt, env)
            case Allocate(allocations, body):
                for item in allocations:
                    origin = tuple(int(self._value(part.min, env)) for part in item.window)
                    self.memory[item.buffer] = Memory(item.buffer, item.shape, origin)
                self.execute(body, env)
                for item in allocations:
                    del self.memory[item.buffer]
            case BlockRealize():
                self._block(stmt, env)
            case BufferStore():
                self._store(stmt, Points.single(env)).commit()
            case If(condition, body):
                if self._value(condition, env):
                    self.execute(body, env)
            case Barrier() | CommitCopies() | WaitForCopies():
                pass  # statements are executed in order
            case FenceSums() | CommitProducts() | WaitForProducts():
                pass
            case BeginArrivals() | ExpectBoxes() | WaitForBoxes():
                pass
            case Prefetch(buffer, indices):
                self._value(Load(buffer, indices), env)  # inside the buffer
            case _:
                raise AssertionError(f"cannot execute {stmt!r}")

    def _loop(self, loop: For, env: dict[Var, int]) -> None:
        inside = self._num_points(loop.body)
        step = 0 if inside is None else MAX_POINTS // inside
        for begin in range(0, loop.extent, max(step, 1)):
            values = range(begin, min(begin + max(step, 1), loop.extent))
            points = Points.single(env).over(loop.var, values)
            if step == 0 or not self._at_once(loop.body, points):
                for value in values:
                    self.execute(loop.body, {**env, loop.var: value})

    def _block(self, stmt: BlockRealize, env: dict[Var, int]) -> None:
        block = stmt.block
        if self._num_points(stmt) == 1 and self._at_once(stmt, Points.single(env)):
            return
        if stmt.predicate is not None and not self._value(stmt.predicate, env):
            return
        pairs = zip(block.iter_vars, stmt.values, strict=True)
        inner: dict[Var, int] = {axis: int(self._value(value, env)) for axis, value in pairs}
        if block.init is not None and all(inner[axis] == 0 for axis in block.reduce_vars):
            self.execute(block.init, inner)
        self.execute(block.body, inner)

    def _num_points(self, stmt: Stmt) -> int | None:
        if id(stmt) not in self._counts:
            self._counts[id(stmt)] = _num_points(stmt)
        return self._counts[id(stmt)]

    def _at_once(self, stmt: Stmt, points: Points) -> bool:
        """Run `stmt` at all `points`; False, and nothing done, where only their order tells."""
        inits: list[Write] = []
        updates: list[Write] = []
        self._prepare(stmt, points, inits, updates)
        if not in_order(inits, updates):
            return False
        for write in (*inits, *updates):
            write.commit()
        return True

    def _prepare(
        self, stmt: Stmt, points: Points, inits: list[Write], updates: list[Write]
    ) -> None:
        if points.count == 0:
            return
        match stmt:
            case For(var, extent, body):
                self._prepare(body, points.over(var, range(extent)), inits, updates)
            case BlockRealize(values, block, predicate):
                for condition in conjuncts(predicate):
                    points = points.where(self._value(condition, points.env))
                    if points.count == 0:
                        return
                pairs = zip(block.iter_vars, values, strict=True)
                own = points.bound({axis: self._value(v, points.env) for axis, v in pairs})
                if block.init is not None:
                    own = own.marked()
                    first = own
                    for axis in block.reduce_vars:
                        if first.count:
                            first = first.where(first.env[axis] == 0)
                    self._prepare(block.init, first, inits, inits)
                self._prepare(block.body, own, inits, updates)
            case BufferStore():
                updates.append(self._store(stmt, points))
            case _:
                raise AssertionError(f"cannot run at once: {stmt!r}")

    def _store(self, store: BufferStore, points: Points) -> Write:
        memory = self.memory[store.buffer]
        indices = [self._value(index, points.env) for index in store.indices]
        places = points.whole(memory.places(indices))
        update = update_of(store)
        ufunc, operand = (None, store.value) if update is None else update
        value = np.asarray(self._value(operand, points.env)).astype(memory.data.dtype)
        return Write(memory, points, places, points.whole(value), ufunc)

    def _value(self, expr: Expr, env: Mapping[Var, Array]) -> Array:
        return evaluate(expr, env, self._read)

    def _read(self, load: Load, indices: list[Array]) -> Array:
        return self.memory[load.buffer].read(indices, load.pad_value)


def _num_points(stmt: Stmt) -> int | None:
    """How many stores `stmt` makes, where they may run at once; else None.

    They may where loops and blocks, at most one of them with an init, enclose a single store, which
    reads of its own buffer at most the element that it accumulates into; the init's buffer is that
    one too.
    """
    match stmt:
        case For(_, extent, body):
            inside = _num_points(body)
            return None if inside is None else extent * inside
        case BlockRealize(_, block):
            inside = _num_points(block.body)
            if block.init is None or inside is None:
                return inside
            alone = _num_points(block.init) is not None and not _has_init(block.body)
            return inside if alone and _target(block.init) is _target(block.body) else None
        case BufferStore(buffer, _, value):
            feeds_back = any(load.buffer is buffer for load in loads(value))
            return None if feeds_back and update_of(stmt) is None else 1
    return None


def _has_init(stmt: Stmt) -> bool:
    match stmt:
        case For(_, _, body):
            return _has_init(body)
        case BlockRealize(_, block):
            return block.init is not None or _has_init(block.body)
    return False


def _target(stmt: Stmt) -> Buffer:
    """What the single store in `stmt` writes."""
    match stmt:
        case For(_, _, body):
            return _target(body)
        case BlockRealize(_, block):
            return _target(block.body)
        case BufferStore(buffer):
            return buffer
    raise AssertionError(f"more than one store: {stmt!r}")
