"""Tiles that do not divide their axes: the last one begins earlier, so some results come twice.

An axis `i` of extent E becomes a number of tiles and T places in a tile: ``i = min(tile * T, E - T)
+ place``. Reduction and result are written over these axes; the function stores each element at
`i`. Elements in two tiles are stored twice, with the same value, so threads may share them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from daedal.compiler import te
from daedal.compiler.ops.cpu.reuse import Tiles
from daedal.compiler.tir.expr import Axis, Buffer, Expr, IntImm, Load, Var, minimum
from daedal.compiler.tir.linear import simplify
from daedal.compiler.tir.lower.outputs import with_output
from daedal.compiler.tir.stmt import BufferStore, PrimFunc
from daedal.compiler.tir.visit import rewrite, substitute

__all__ = ["Overlap"]


@dataclass(frozen=True)
class _Split:
    """An axis, by its position, that becomes two."""

    position: int
    extent: int
    size: int

    @property
    def tiles(self) -> int:
        return -(-self.extent // self.size)

    def place(self, tile: Expr, inner: Expr) -> Expr:
        """The index on the axis."""
        return minimum(tile * self.size, IntImm(self.extent - self.size)) + inner


class Overlap:
    """The axes of a tile that it does not divide.

    Attributes
    ----------
    given : the register tile.
    tiles : the same over the new axes.
    """

    def __init__(self, tiles: Tiles, axes: Sequence[Axis]) -> None:
        self.given = tiles
        sizes = dict(((tiles.vector, tiles.lanes), *tiles.rows))
        self._splits = {
            position: _Split(position, axes[position].extent, size)
            for position, size in sizes.items()
            if axes[position].extent % size
        }
        self._digits = Var("tile"), Var("place")
        self.tiles = replace(
            tiles,
            vector=self._inner(tiles.vector),
            rows=tuple((self._inner(position), size) for position, size in tiles.rows),
            outer=tuple(item for position in tiles.outer for item in self._both(position)),
        )

    def __bool__(self) -> bool:
        return bool(self._splits)

    def digits(self, axis: Axis) -> tuple[Expr, Expr]:
        """The number of the tile, and the place in it, along the axis of the lanes."""
        if self.given.vector in self._splits:
            return self._digits
        return axis // self.given.lanes, axis % self.given.lanes

    def tile_axis(self, position: int) -> int:
        """The position of the axis whose outer loop goes over the tiles of an old one."""
        return self._both(position)[0]

    def applied(self, tensor: te.Tensor, sources: Mapping[Buffer, te.Tensor]) -> te.Tensor:
        """`tensor` over the new axes; it reads those of `sources` at the same places."""
        values: dict[Var, Expr] = {}
        axes: list[Axis] = []
        for position, axis in enumerate(tensor.axes):
            split = self._splits.get(position)
            if split is None:
                axes.append(axis)
                continue
            tile = Axis(f"{axis.name}_tile", extent=split.tiles)
            inner = Axis(f"{axis.name}_in", extent=split.size)
            axes += [tile, inner]
            values[axis] = split.place(tile, inner)
            if position == self.given.vector:
                values |= dict(zip(self._digits, (tile, inner), strict=True))

        def visit(node: Expr) -> Expr | None:
            if isinstance(node, Load) and node.buffer in sources:
                return Load(sources[node.buffer], tuple(axes))
            return None

        assert tensor.value is not None
        value = substitute(rewrite(tensor.value, visit), values)
        shape = tuple(axis.extent for axis in axes)
        return te.Tensor(tensor.name, shape, tensor.dtype, "global", tuple(axes), value)

    def placed(self, func: PrimFunc, shape: Sequence[int]) -> PrimFunc:
        """`func` as plain loops, which store the elements of its output in a buffer of `shape`."""

        def placed(store: BufferStore, extents: Mapping[Var, int]) -> BufferStore:
            indices = self._indices(store.indices, len(shape))
            return replace(store, indices=tuple(simplify(index, extents) for index in indices))

        return with_output(func, shape, placed)

    def _indices(self, indices: Sequence[Expr], rank: int) -> Iterator[Expr]:
        given = iter(indices)
        for position in range(rank):
            split = self._splits.get(position)
            yield next(given) if split is None else split.place(next(given), next(given))

    def _both(self, position: int) -> tuple[int, ...]:
        """The positions of the axes that an old one has become."""
        last = self._inner(position)
        return (last - 1, last) if position in self._splits else (last,)

    def _inner(self, position: int) -> int:
        """The position of the innermost axis that an old one has become."""
        return position + sum(1 for other in self._splits if other <= position)
