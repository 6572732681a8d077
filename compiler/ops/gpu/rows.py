"""Kernels of rows: a softmax or a norm from begin to end, each row by some threads of a block.

    m = max(x[i, k], k); e[j] = exp(x[i, j] - m); s = sum(e[k], k); y[i, j] = e[j] / s

Each thread has every so many elements of a row in registers: of what is computed, and of inputs
that several stages read, which are loaded once. A reduction has three steps, with shared memory
between them: each thread reduces its elements, a few threads of the row the results of all, and
every thread the results of these few.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.gpu import loops
from daedal.compiler.te.reduction import combine, identity
from daedal.compiler.tir.condition import all_of
from daedal.compiler.tir.expr import Axis, Buffer, Expr, IntImm, Load, Reduce, Select, Var, minimum
from daedal.compiler.tir.lower.rebuild import flat_seq
from daedal.compiler.tir.stmt import For, If, PrimFunc, Stmt
from daedal.compiler.tir.visit import free_vars, loads, rewrite, substitute

__all__ = ["RowTiles", "row_function", "row_tiles"]

FEW_THREADS, MOST_THREADS = 32, 1024
"""Of a row."""
BLOCK_THREADS = 128
"""Of a block whose rows are short."""
FEW_ELEMENTS, MOST_ELEMENTS = 8, 32
"""Of a row that a thread has: with more, a row has more threads, as long as there are."""
VECTORS = (4, 2, 1)
"""Neighbouring elements that a thread may have: these are loaded and stored together."""
MOST_REGISTERS, REGISTERS = 96, 65536
"""Of a thread for elements of rows, and of a multiprocessor. Source: CUDA C++ Programming Guide,
compute capabilities."""


@dataclass(frozen=True)
class RowTiles:
    """Rows of a block, threads of each, elements of each of these, and how many of them are next to
    each other."""

    rows: int
    threads: int
    elements: int
    vector: int = 1

    @property
    def few(self) -> int:
        """Threads of a row that reduce what all have reduced."""
        return 1 << (self.threads.bit_length() // 2)


def row_tiles(kernel: Kernel, *, has_vectors: bool = True) -> RowTiles | None:
    """The tiles of a kernel of rows; None where this schedule does not compute it."""
    if not kernel.stages or kernel.reduction is not None:
        return None
    length = kernel.result.shape[-1]
    if not all(_fits(tensor, kernel, length) for tensor in (*kernel.stages, kernel.result)):
        return None
    threads = min(FEW_THREADS, 1 << (length - 1).bit_length())
    while threads < MOST_THREADS and threads * FEW_ELEMENTS < length:
        threads *= 2
    vectors = [n for n in VECTORS if has_vectors and length % n == 0 and length >= n * threads]
    sizes = {n: -(-length // (threads * n)) * n for n in (*vectors, 1)}
    vector = min(sizes, key=lambda n: (sizes[n], -n))
    elements = sizes[vector]
    kept = len(_read_twice(kernel)) + sum(item.shape[-1] > 1 for item in kernel.stages)
    if elements > MOST_ELEMENTS or kept * elements > min(MOST_REGISTERS, REGISTERS // threads // 2):
        return None
    count = math.prod(kernel.result.shape[:-1])
    rows = max(1, min(BLOCK_THREADS // threads, 1 << (count - 1).bit_length()))
    return RowTiles(rows, threads, elements, vector)


def _fits(tensor: te.Tensor, kernel: Kernel, length: int) -> bool:
    """Whether a stage is a row or one element, and reads its own element of other stages."""
    value = tensor.value
    assert value is not None
    axis = tensor.axes[-1]
    if isinstance(value, Reduce):
        if len(value.axes) != 1 or value.axes[0].extent != length or tensor.dtype == "bool":
            return False
        axis, value = value.axes[0], value.value
    elif tensor.shape[-1] not in (1, length):
        return False
    return all(
        load.indices[-1] is axis or load.buffer.shape[-1] == 1
        for load in loads(value)
        if load.buffer in kernel.stages
    )


def _own_element(tensor: te.Tensor) -> tuple[Expr, Axis]:
    """The formula of an element, or of a term, and the axis along the row."""
    value = tensor.value
    assert value is not None
    if isinstance(value, Reduce):
        return value.value, value.axes[0]
    return value, tensor.axes[-1]


def _in_result(tensor: te.Tensor, result: te.Tensor) -> Expr:
    """The formula of an element or a term with the axes of the result."""
    value, axis = _own_element(tensor)
    to: dict[Var, Expr] = dict(zip(tensor.axes[:-1], result.axes[:-1], strict=True))
    to[tensor.axes[-1]] = IntImm(0)
    to[axis] = result.axes[-1] if axis.extent > 1 else IntImm(0)
    return substitute(value, to)


def _read_twice(kernel: Kernel) -> list[Load]:
    """Elements of inputs along the row that several stages read, with the axes of the result."""
    found: dict[Load, int] = {}
    last = kernel.result.axes[-1]
    for tensor in (*kernel.stages, kernel.result):
        for load in dict.fromkeys(loads(_in_result(tensor, kernel.result))):
            if load.buffer in kernel.inputs and any(last in free_vars(i) for i in load.indices):
                found[load] = found.get(load, 0) + 1
    return [load for load, count in found.items() if count > 1 and load.pad_value is None]


def row_function(kernel: Kernel, tiles: RowTiles) -> PrimFunc:
    """A kernel of rows as plain loops, bound to the axes of the grid."""
    return _Rows(kernel, tiles).function()


class _Rows:
    """Writes the loops of one kernel."""

    def __init__(self, kernel: Kernel, tiles: RowTiles) -> None:
        self._kernel, self._tiles = kernel, tiles
        result = kernel.result
        self._output = Buffer(result.name, result.shape, result.dtype)
        self._length = result.shape[-1]
        self._count = math.prod(result.shape[:-1])
        self._kept: dict[Load, Buffer] = {
            load: self._fragment(f"kept{number}", load.dtype, self._length)
            for number, load in enumerate(_read_twice(kernel))
        }
        self._stages: dict[Buffer, Buffer] = {
            item: self._fragment(item.name, item.dtype, item.shape[-1]) for item in kernel.stages
        }
        self._shared: dict[str, tuple[Buffer, Buffer]] = {}
        self._block = Var("block")

    def _fragment(self, name: str, dtype: str, length: int) -> Buffer:
        """Elements of rows, or one of each that every thread has."""
        tiles = self._tiles
        steps, vector = (tiles.elements // tiles.vector, tiles.vector) if length > 1 else (1, 1)
        return Buffer(name, (tiles.rows, steps, tiles.threads * vector), dtype, "fragment")

    def function(self) -> PrimFunc:
        """The kernel, with the parameters of other kernels."""
        parts = [self._loaded(load, buffer) for load, buffer in self._kept.items()]
        parts += [self._staged(item) for item in self._kernel.stages]
        parts.append(self._stored())
        shared = [buffer for pair in self._shared.values() for buffer in pair]
        buffers = [*self._kept.values(), *self._stages.values(), *shared]
        body = loops.allocated(buffers, *parts)
        count = -(-self._count // self._tiles.rows)
        params = (*self._kernel.inputs, self._output)
        return PrimFunc("kernel", params, For(self._block, count, body, "block.x"))

    def _threads(self, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
        """A statement for each row of a block and each thread of the row."""
        tiles = self._tiles

        def of_thread(thread: Var) -> Stmt:
            return body(thread // tiles.threads, thread % tiles.threads)

        return loops.loop("thread", tiles.rows * tiles.threads, of_thread, "thread.x")

    def _vectors(self, thread: Expr, body: Callable[["_Vector"], Stmt]) -> Stmt:
        """A statement for each vector of elements that a thread has."""
        tiles = self._tiles

        def of_step(step: Var) -> Stmt:
            first = (step * tiles.threads + thread) * tiles.vector
            return body(_Vector(step, thread * tiles.vector, first))

        return loops.unrolled("step", tiles.elements // tiles.vector, of_step)

    def _each(self, thread: Expr, body: Callable[["_Place"], Stmt]) -> Stmt:
        """A statement for each element that a thread has, those of a vector together."""

        def of_vector(vector: _Vector) -> Stmt:
            if self._tiles.vector == 1:
                return body(vector.element(IntImm(0)))
            return loops.vector(self._tiles.vector, lambda lane: body(vector.element(lane)))

        return self._vectors(thread, of_vector)

    def _ends(self) -> bool:
        """Whether some threads have elements behind the end of the row."""
        tiles = self._tiles
        return self._length < tiles.threads * tiles.elements

    def _places(self, row: Expr, place: "_Place") -> dict[Var, Expr]:
        """The axes of the result at an element: those of the last vector, if there is none."""
        result = self._kernel.result
        number = self._block * self._tiles.rows + row
        if self._count % self._tiles.rows:
            number = minimum(number, self._count - 1)
        outer = loops.digits(number, result.shape[:-1])
        found: dict[Var, Expr] = dict(zip(result.axes[:-1], outer, strict=True))
        first = place.vector.first
        if self._ends():
            first = minimum(first, self._length - self._tiles.vector)
        found[result.axes[-1]] = first + place.lane if self._length > 1 else IntImm(0)
        return found

    def _value(self, tensor: te.Tensor, row: Expr, thread: Expr, place: "_Place") -> Expr:
        """An element of a stage, or a term of a reduction."""
        result = self._kernel.result

        def visit(node: Expr) -> Expr | None:
            if not isinstance(node, Load):
                return None
            if node.buffer in self._stages:
                at = place.indices if node.buffer.shape[-1] > 1 else (IntImm(0), thread)
                return Load(self._stages[node.buffer], (row, *at))
            if node in self._kept:
                return Load(self._kept[node], (row, *place.indices))
            return None

        value = rewrite(_in_result(tensor, result), visit)
        return substitute(value, self._places(row, place))

    def _loaded(self, load: Load, kept: Buffer) -> Stmt:
        """Elements of an input that several stages read."""

        def of_thread(row: Expr, thread: Expr) -> Stmt:
            def one(place: _Place) -> Stmt:
                value = substitute(load, self._places(row, place))
                return loops.store(kept, (row, *place.indices), value)

            return self._each(thread, one)

        return self._threads(of_thread)

    def _staged(self, tensor: te.Tensor) -> Stmt:
        """A stage of all rows of a block."""
        if isinstance(tensor.value, Reduce):
            return self._reduced(tensor, tensor.value)
        buffer = self._stages[tensor]

        def of_thread(row: Expr, thread: Expr) -> Stmt:
            def one(place: _Place) -> Stmt:
                value = self._value(tensor, row, thread, place)
                at = place.indices if tensor.shape[-1] > 1 else (IntImm(0), thread)
                return loops.store(buffer, (row, *at), value)

            if tensor.shape[-1] > 1:
                return self._each(thread, one)
            return one(_Vector(IntImm(0), thread, IntImm(0)).element(IntImm(0)))

        return self._threads(of_thread)

    def _reduced(self, tensor: te.Tensor, formula: Reduce) -> Stmt:
        tiles, op, dtype = self._tiles, formula.op, tensor.dtype
        first = identity(op, dtype)
        parts, sums = self._exchange(dtype)
        own = Buffer("own", (1,), dtype, "local")

        def combined(value: Expr) -> Stmt:
            return loops.store(own, (0,), combine(op, loops.first(own), value))

        def of_terms(row: Expr, thread: Expr) -> Stmt:
            def terms(vector: _Vector) -> Stmt:
                def term(lane: Expr) -> Stmt:
                    value = self._value(tensor, row, thread, vector.element(lane))
                    if self._ends():
                        value = Select(vector.first < self._length, value, first)
                    return combined(value)

                return loops.unrolled("lane", tiles.vector, term)

            return loops.allocated(
                [own],
                loops.store(own, (0,), first),
                self._vectors(thread, terms),
                loops.store(parts, (row, thread), loops.first(own)),
            )

        def of_few(row: Expr, thread: Expr) -> Stmt:
            def part(number: Var) -> Stmt:
                return combined(Load(parts, (row, number * tiles.few + thread)))

            return If(
                thread < tiles.few,
                loops.allocated(
                    [own],
                    loops.store(own, (0,), first),
                    loops.unrolled("part", tiles.threads // tiles.few, part),
                    loops.store(sums, (row, thread), loops.first(own)),
                ),
            )

        def of_all(row: Expr, thread: Expr) -> Stmt:
            return loops.allocated(
                [own],
                loops.store(own, (0,), first),
                loops.unrolled(
                    "part", tiles.few, lambda number: combined(Load(sums, (row, number)))
                ),
                loops.store(self._stages[tensor], (row, 0, thread), loops.first(own)),
            )

        return flat_seq([self._threads(body) for body in (of_terms, of_few, of_all)])

    def _exchange(self, dtype: str) -> tuple[Buffer, Buffer]:
        """Shared memory for what all threads of a row reduce, and for what few do."""
        if dtype not in self._shared:
            tiles = self._tiles
            widths = {"parts": tiles.threads, "sums": tiles.few}
            parts, sums = (
                Buffer(f"{name}_{dtype}", (tiles.rows, width), dtype, "shared")
                for name, width in widths.items()
            )
            self._shared[dtype] = parts, sums
        return self._shared[dtype]

    def _stored(self) -> Stmt:
        result, tiles = self._kernel.result, self._tiles

        def of_thread(row: Expr, thread: Expr) -> Stmt:
            number = self._block * tiles.rows + row
            outer = loops.digits(number, result.shape[:-1])

            def vectors(vector: _Vector) -> Stmt:
                def one(lane: Expr) -> Stmt:
                    value = self._value(result, row, thread, vector.element(lane))
                    return loops.store(self._output, (*outer, vector.first + lane), value)

                inside = [number < self._count] if self._count % tiles.rows else []
                inside += [vector.first < self._length] if self._ends() else []
                condition = all_of(inside)
                stored = one(IntImm(0)) if tiles.vector == 1 else loops.vector(tiles.vector, one)
                return stored if condition is None else If(condition, stored)

            return self._vectors(thread, vectors)

        return self._threads(of_thread)


@dataclass(frozen=True)
class _Vector:
    """Neighbouring elements of a row: the step and the place in fragments of the first one, and its
    number in the row."""

    step: Expr
    place: Expr
    first: Expr

    def element(self, lane: Expr) -> "_Place":
        """One of them."""
        return _Place(self, lane)


@dataclass(frozen=True)
class _Place:
    """An element of a row."""

    vector: _Vector
    lane: Expr

    @property
    def indices(self) -> tuple[Expr, Expr]:
        """In fragments, behind the row."""
        return self.vector.step, self.vector.place + self.lane
