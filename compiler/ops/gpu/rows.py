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
from daedal.compiler.tir.expr import (
    Axis,
    Buffer,
    Expr,
    IntImm,
    Load,
    Reduce,
    Select,
    Var,
    all_of,
    minimum,
)
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
MOST_REGISTERS, REGISTERS = 96, 65536
"""Of a thread for elements of rows, and of a multiprocessor. Source: CUDA C++ Programming Guide,
compute capabilities."""


@dataclass(frozen=True)
class RowTiles:
    """Rows of a block, threads of each, and elements of each of these."""

    rows: int
    threads: int
    elements: int

    @property
    def few(self) -> int:
        """Threads of a row that reduce what all have reduced."""
        return 1 << (self.threads.bit_length() // 2)


def row_tiles(kernel: Kernel) -> RowTiles | None:
    """The tiles of a kernel of rows; None where this schedule does not compute it."""
    if not kernel.stages or kernel.reduction is not None:
        return None
    length = kernel.result.shape[-1]
    if not all(_fits(tensor, kernel, length) for tensor in (*kernel.stages, kernel.result)):
        return None
    threads = min(FEW_THREADS, 1 << (length - 1).bit_length())
    while threads < MOST_THREADS and threads * FEW_ELEMENTS < length:
        threads *= 2
    elements = -(-length // threads)
    kept = len(_read_twice(kernel)) + sum(item.shape[-1] > 1 for item in kernel.stages)
    if elements > MOST_ELEMENTS or kept * elements > min(MOST_REGISTERS, REGISTERS // threads // 2):
        return None
    count = math.prod(kernel.result.shape[:-1])
    rows = max(1, min(BLOCK_THREADS // threads, 1 << (count - 1).bit_length()))
    return RowTiles(rows, threads, elements)


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
        width = tiles.threads * (tiles.elements if length > 1 else 1)
        return Buffer(name, (tiles.rows, width), dtype, "fragment")

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

    def _each(self, length: int, thread: Expr, body: Callable[[Expr], Stmt]) -> Stmt:
        """A statement for each element that a thread has."""
        if length == 1:
            return body(thread)
        return loops.unrolled(
            "step",
            self._tiles.elements,
            lambda step: body(step * self._tiles.threads + thread),
        )

    def _places(self, tensor: te.Tensor, axis: Axis, row: Expr, element: Expr) -> dict[Var, Expr]:
        """Of an element in the tensor: the last one where there is none."""
        number = self._block * self._tiles.rows + row
        if self._count % self._tiles.rows:
            number = minimum(number, self._count - 1)
        outer = loops.digits(number, tensor.shape[:-1])
        found: dict[Var, Expr] = dict(zip(tensor.axes[:-1], outer, strict=True))
        if axis.extent == 1:
            found[axis] = IntImm(0)
        else:
            ends = self._length % self._tiles.threads
            found[axis] = minimum(element, self._length - 1) if ends else element
        return found

    def _value(self, tensor: te.Tensor, row: Expr, thread: Expr, element: Expr) -> Expr:
        """An element of a stage, or a term of a reduction."""
        result = self._kernel.result
        places = self._places(result, result.axes[-1], row, element)

        def visit(node: Expr) -> Expr | None:
            if not isinstance(node, Load):
                return None
            if node.buffer in self._stages:
                at = element if node.buffer.shape[-1] > 1 else thread
                return Load(self._stages[node.buffer], (row, at))
            if node in self._kept:
                return Load(self._kept[node], (row, element))
            return None

        return substitute(rewrite(_in_result(tensor, result), visit), places)

    def _loaded(self, load: Load, kept: Buffer) -> Stmt:
        """Elements of an input that several stages read."""
        result = self._kernel.result

        def of_thread(row: Expr, thread: Expr) -> Stmt:
            def one(element: Expr) -> Stmt:
                places = self._places(result, result.axes[-1], row, element)
                return loops.store(kept, (row, element), substitute(load, places))

            return self._each(self._length, thread, one)

        return self._threads(of_thread)

    def _staged(self, tensor: te.Tensor) -> Stmt:
        """A stage of all rows of a block."""
        if isinstance(tensor.value, Reduce):
            return self._reduced(tensor, tensor.value)
        buffer = self._stages[tensor]

        def of_thread(row: Expr, thread: Expr) -> Stmt:
            def one(element: Expr) -> Stmt:
                return loops.store(
                    buffer, (row, element), self._value(tensor, row, thread, element)
                )

            return self._each(tensor.shape[-1], thread, one)

        return self._threads(of_thread)

    def _reduced(self, tensor: te.Tensor, formula: Reduce) -> Stmt:
        tiles, op, dtype = self._tiles, formula.op, tensor.dtype
        first = identity(op, dtype)
        parts, sums = self._exchange(dtype)
        own = Buffer("own", (1,), dtype, "local")
        each = tiles.threads // tiles.few

        def combined(value: Expr) -> Stmt:
            return loops.store(own, (0,), combine(op, loops.first(own), value))

        def of_terms(row: Expr, thread: Expr) -> Stmt:
            def term(element: Expr) -> Stmt:
                value = self._value(tensor, row, thread, element)
                if self._length % tiles.threads:
                    value = Select(element < self._length, value, first)
                return combined(value)

            return loops.allocated(
                [own],
                loops.store(own, (0,), first),
                self._each(self._length, thread, term),
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
                    loops.unrolled("part", each, part),
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
                loops.store(self._stages[tensor], (row, thread), loops.first(own)),
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
        result = self._kernel.result

        def of_thread(row: Expr, thread: Expr) -> Stmt:
            def one(element: Expr) -> Stmt:
                number = self._block * self._tiles.rows + row
                outer = loops.digits(number, result.shape[:-1])
                value = self._value(result, row, thread, element)
                inside = [number < self._count] if self._count % self._tiles.rows else []
                inside += [element < self._length] if self._length % self._tiles.threads else []
                condition = all_of(inside)
                store = loops.store(self._output, (*outer, element), value)
                return store if condition is None else If(condition, store)

            return self._each(self._length, thread, one)

        return self._threads(of_thread)
