"""`Frame`: a tensor that lies inside a larger one, whose other elements all have one value.

A convolution reads a map with pads. Where only this padded map is in memory, the kernel before it
stores inside the pads, and none copies the map::

    q[h, w] = p[h - 1, w - 1] inside p, else 0        q[h + 1, w + 1] = p[h, w]; border of q = 0
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from daedal.compiler import te
from daedal.compiler.tir.expr import Axis, Buffer, Expr, IntImm, Load, Select, Var, as_expr
from daedal.compiler.tir.linear import Linear, linear, simplify
from daedal.compiler.tir.lower.outputs import with_output
from daedal.compiler.tir.lower.rebuild import flat_seq
from daedal.compiler.tir.stmt import BufferStore, For, PrimFunc, Stmt
from daedal.compiler.tir.visit import free_vars, loads, rewrite

__all__ = ["Frame", "Framed", "framed"]


@dataclass(frozen=True)
class Frame:
    """Where the elements of a tensor lie in a larger one.

    Attributes
    ----------
    inner, outer : shapes of the tensor, and of the one in memory.
    before : elements of the larger one before the first, along each dimension.
    value : of all other elements; without variables.
    """

    inner: tuple[int, ...]
    outer: tuple[int, ...]
    before: tuple[int, ...]
    value: Expr

    def inside(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """The indices in memory of the element at `indices`."""
        return tuple(index + first for index, first in zip(indices, self.before, strict=True))

    def follows(self, dimension: int) -> bool:
        """Whether there is nothing between the last element along `dimension` and the next one."""
        return self.inner[dimension] == self.outer[dimension]

    def placed(self, func: PrimFunc) -> PrimFunc:
        """`func`, which stores a tensor with as many elements as `inner`, as plain loops that store
        them in the larger one."""
        (output,) = func.outputs

        def placed(store: BufferStore, extents: Mapping[Var, int]) -> BufferStore:
            indices = self.inside(_regrouped(store.indices, output.shape, self.inner))
            return replace(store, indices=tuple(simplify(index, extents) for index in indices))

        return with_output(func, self.outer, placed)

    def border(self, dtype: str) -> PrimFunc:
        """The function that stores all other elements.

        Its parallel loop goes over the places of a map in their order, so that threads that share
        it store what lies around the places that they compute.
        """
        buffer = Buffer("y", self.outer, dtype, "global")
        padded = [
            number
            for number, sizes in enumerate(zip(self.inner, self.outer, strict=True))
            if sizes[0] != sizes[1]
        ]
        first = next(number for number, extent in enumerate(self.outer) if extent > 1)
        if padded == [first, first + 1] and len(self.outer) > first + 2:
            return PrimFunc("border", (buffer,), self._pixels(buffer, first))
        loops = [self._side(buffer, *side) for side in self._sides()]
        return PrimFunc("border", (buffer,), flat_seq(loops))

    def _pixels(self, buffer: Buffer, first: int) -> Stmt:
        """Stores in places of dimensions `first` and the next one: whole rows above, two sides of
        each row, whole rows below."""
        height, width = self.inner[first : first + 2]
        top, left = self.before[first : first + 2]
        row = self.outer[first + 1]
        sides = row - width
        num_above, num_beside = top * row, height * sides
        total = self.outer[first] * row - height * width
        place = Var("place")
        number, behind = place - num_above, place - num_above - num_beside
        is_above, is_below = place < num_above, place >= num_above + num_beside
        y = Select(
            is_above,
            place // row,
            Select(is_below, behind // row + (top + height), number // sides + top),
        )
        x = Select(
            is_above,
            place % row,
            Select(
                is_below,
                behind % row,
                Select(number % sides < left, number % sides, number % sides + width),
            ),
        )
        rest = self.outer[first + 2 :]
        loops = [Var(f"i{axis}") for axis in range(len(rest))]
        zeros = (IntImm(0),) * first
        body: Stmt = BufferStore(buffer, (*zeros, y, x, *loops), self.value)
        for loop, count in zip(reversed(loops), reversed(rest), strict=True):
            body = For(loop, count, body, "vectorize" if loop is loops[-1] else "serial")
        return For(place, total, body, "parallel")

    def _sides(self) -> Iterator[tuple[int, int, int]]:
        """Dimension, first index and extent of boxes that cover the border."""
        for dimension, first in enumerate(self.before):
            last = first + self.inner[dimension]
            for begin, end in ((0, first), (last, self.outer[dimension])):
                if begin < end:
                    yield dimension, begin, end - begin

    def _side(self, buffer: Buffer, dimension: int, begin: int, extent: int) -> Stmt:
        """Stores along one side: inside `inner` before `dimension`, everywhere behind it."""
        firsts = (*self.before[:dimension], begin, *(0 for _ in self.outer[dimension + 1 :]))
        extents = (*self.inner[:dimension], extent, *self.outer[dimension + 1 :])
        loops = [Var(f"i{number}") for number in range(len(extents))]
        places = tuple(first + loop for first, loop in zip(firsts, loops, strict=True))
        body: Stmt = BufferStore(buffer, places, self.value)
        for loop, count in zip(reversed(loops), reversed(extents), strict=True):
            kind = "vectorize" if loop is loops[-1] else "serial"
            body = For(loop, count, body, kind)
        return body


@dataclass(frozen=True)
class Framed:
    """A tensor as what is stored in it.

    Attributes
    ----------
    content : the tensor inside: every element that has not the border's value.
    source : what it reads, at its own axes.
    copies : whether elements are those of `source`, unchanged.
    """

    frame: Frame
    content: te.Tensor
    source: Buffer
    copies: bool


def framed(tensor: te.Tensor) -> Framed | None:
    """What is stored inside the pads of `tensor`; None where its formula is not a tensor with pads
    around it, whose elements may be changed one by one."""
    assert tensor.value is not None
    read = set(loads(tensor.value))
    (load,) = read if len(read) == 1 else (None,)
    if load is None or load.pad_value is None or tensor.shape == load.buffer.shape:
        return None
    before = _before(load, tensor.axes)
    border = _with(tensor.value, load, as_expr(load.pad_value, load.dtype))
    if before is None or free_vars(border):
        return None
    inner = load.buffer.shape
    axes = tuple(
        Axis(axis.name, extent=extent) for axis, extent in zip(tensor.axes, inner, strict=True)
    )
    value = _with(tensor.value, load, Load(load.buffer, axes))
    content = te.Tensor(tensor.name, inner, tensor.dtype, "global", axes, value)
    frame = Frame(inner, tensor.shape, before, border)
    return Framed(frame, content, load.buffer, tensor.value is load)


def _before(load: Load, axes: Sequence[Axis]) -> tuple[int, ...] | None:
    """The pads before the first element along each axis; None where `load` moves elsewhere, or
    leaves elements out."""
    if len(load.indices) != len(axes):
        return None
    found = []
    for index, axis, extent in zip(load.indices, axes, load.buffer.shape, strict=True):
        form = linear(index)
        if axis.extent == extent == 1 and not form.terms:
            form = Linear(((axis, 1),), form.constant)
        if form.terms != ((axis, 1),) or not 0 <= -form.constant <= axis.extent - extent:
            return None
        found.append(-form.constant)
    return tuple(found)


def _with(formula: Expr, load: Load, value: Expr) -> Expr:
    return rewrite(formula, lambda node: value if node == load else None)


def _regrouped(indices: Sequence[Expr], shape: Sequence[int], wanted: Sequence[int]) -> list[Expr]:
    """The indices in a tensor of shape `wanted` of the element at `indices` of one of `shape`.

    Both have their elements in the same order. Dimensions with as many elements before them and
    behind them stay as they are, and only those between two such places are computed.
    """
    found: list[Expr] = []
    given, sizes = list(zip(indices, shape, strict=True)), list(wanted)
    while sizes:
        if not given:  # only dimensions of one element are left
            return [*found, *(IntImm(0) for _ in sizes)]
        own, other = [given.pop(0)], [sizes.pop(0)]
        while (a := math.prod(size for _, size in own)) != (b := math.prod(other)):
            if a < b:
                own.append(given.pop(0))
            else:
                other.append(sizes.pop(0))
        if len(own) == len(other) == 1:
            found.append(own[0][0])
            continue
        number: Expr = IntImm(0)
        for index, size in own:
            number = number * size + index
        step = math.prod(other)
        for size in other:
            step //= size
            found.append(number // step % size)
    return found
