"""Another layout of a buffer: where each of its elements lies, as a reversible map of indices.

A map is written as text: ``i, j -> i // 4, j, i % 4`` cuts rows into tiles of four and puts what is
inside a tile last; ``i, j -> i * 8 + j`` joins two dimensions (j has extent 8).
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule.edit import edit_block, replace_site
from daedal.compiler.tir.expr import Axis, Buffer, Expr, IntImm, Load, Var
from daedal.compiler.tir.linear import simplify
from daedal.compiler.tir.region import make_block
from daedal.compiler.tir.sites import Site, collect
from daedal.compiler.tir.stmt import Block, BlockRealize, BufferStore, Stmt
from daedal.compiler.tir.visit import free_vars, rewrite, substitute

__all__ = ["IndexMap", "transform_layout"]


@dataclass(frozen=True)
class _Digit:
    """``index[dim] // stride % extent``: one digit of an old index in a mixed radix."""

    dim: int
    stride: int
    extent: int


@dataclass(frozen=True)
class IndexMap:
    """A bijection of index tuples: each new index is made of digits of the old ones.

    `parts` has, per new dimension, the digits and their weights in it, least weight first.
    """

    shape: tuple[int, ...]
    parts: tuple[tuple[tuple[_Digit, int], ...], ...]

    @classmethod
    def parse(cls, text: str, shape: Sequence[int]) -> "IndexMap":
        """Read a map for a buffer of `shape`.

        Raises
        ------
        ScheduleError
            Where `text` is no map, or one that loses or repeats elements.
        """
        head, arrow, tail = text.partition("->")
        names = [name.strip() for name in head.split(",")]
        if not arrow or len(names) != len(shape) or len(set(names)) < len(names):
            raise ScheduleError(
                f"a layout needs one name per dimension and what becomes of them, as in "
                f"'i, j -> i // 4, j, i % 4', not {text!r} for {len(shape)} dimensions"
            )
        parts = tuple(_digits(index, names, shape) for index in tail.split(","))
        digits = [digit for part in parts for digit, _ in part]
        for dim, size in enumerate(shape):
            own = sorted((digit.stride, digit.extent) for digit in digits if digit.dim == dim)
            _require_radix(own, size, text)
        for part in parts:
            _require_radix([(weight, digit.extent) for digit, weight in part], None, text)
        return cls(tuple(shape), parts)

    @property
    def new_shape(self) -> tuple[int, ...]:
        """The extents of the new dimensions."""
        sizes = []
        for part in self.parts:
            size = 1
            for digit, _ in part:
                size *= digit.extent
            sizes.append(size)
        return tuple(sizes)

    def names(self, old: Sequence[str]) -> list[str]:
        """Names for the new dimensions, from those of the old ones."""
        digits = [digit for part in self.parts for digit, _ in part]
        total = Counter(digit.dim for digit in digits)
        seen: Counter[int] = Counter()
        result = []
        for position, part in enumerate(self.parts):
            words = []
            for digit, _ in reversed(part):
                many = total[digit.dim] > 1
                words.append(f"{old[digit.dim]}_{seen[digit.dim]}" if many else old[digit.dim])
                seen[digit.dim] += 1
            result.append("_".join(words) or f"vax{position}")
        return result

    def forward(self, indices: Sequence[Expr]) -> list[Expr]:
        """New indices from old ones."""
        result = []
        for part in self.parts:
            total: Expr = IntImm(0)
            for digit, weight in reversed(part):
                index = indices[digit.dim] // digit.stride
                if digit.stride * digit.extent < self.shape[digit.dim]:
                    index = index % digit.extent
                total = total + index * weight
            result.append(total)
        return result

    def backward(self, indices: Sequence[Expr]) -> list[Expr]:
        """Old indices from new ones."""
        result: list[Expr] = [IntImm(0)] * len(self.shape)
        sizes = self.new_shape
        for position, part in enumerate(self.parts):
            for digit, weight in part:
                index = indices[position] // weight
                if weight * digit.extent < sizes[position]:
                    index = index % digit.extent
                result[digit.dim] = result[digit.dim] + index * digit.stride
        return result


_TERM = re.compile(r"(\w+)(?: *// *(\d+))?(?: *% *(\d+))?(?: *\* *(\d+))?")
"""A digit of an old index with its weight: ``i // 4 % 2 * 8``."""


def _digits(
    index: str, names: Sequence[str], shape: Sequence[int]
) -> tuple[tuple[_Digit, int], ...]:
    """The summands of a new index, least weight first; quotients that are always 0 are left out."""
    found = []
    for term in index.split("+"):
        match = _TERM.fullmatch(term.strip())
        if match is None or match[1] not in names or "0" in match.groups()[1:]:
            raise ScheduleError(
                f"an index of a layout must be a sum of terms like i, i // 4, i % 4 or "
                f"i // 4 % 2 * 8 over {', '.join(names)}, not {index.strip()!r}"
            )
        dim = names.index(match[1])
        stride, weight = int(match[2] or 1), int(match[4] or 1)
        extent = -(-shape[dim] // stride)
        extent = min(extent, int(match[3] or extent))
        if extent > 1 or stride == 1:
            found.append((_Digit(dim, stride, extent), weight))
    return tuple(sorted(found, key=lambda item: item[1]))


def _require_radix(digits: Sequence[tuple[int, int]], size: int | None, text: str) -> None:
    """Refuse digits that do not count through 0 ... size - 1, each number once."""
    expected = 1
    for step, extent in digits:
        if extent > 1 and step != expected:
            break
        expected *= extent
    else:
        if size is None or expected == size:
            return
    raise ScheduleError(
        f"a layout must give each element one place and leave none empty (factors divide the "
        f"extents), which {text!r} does not"
    )


def transform_layout(body: Stmt, old: Buffer, text: str) -> tuple[Stmt, Buffer]:
    """Every access to `old` becomes one to a new buffer; see `Schedule.transform_layout`."""
    index_map = IndexMap.parse(text, old.shape)
    new = Buffer(old.name, index_map.new_shape, old.dtype, old.scope)
    for site in collect(body)[0]:
        block = site.block
        if any(region.buffer is old for region in block.writes):
            realize = _over_new_indices(site, old, new, index_map)
        elif any(region.buffer is old for region in block.reads):
            realize = site.realize
        else:
            continue
        block = edit_block(realize.block, _redirected(old, new, index_map))
        body = replace_site(body, block.name, replace(realize, block=block))
    return body, new


def _redirected(old: Buffer, new: Buffer, index_map: IndexMap) -> Callable[[Load], Expr | None]:
    """Loads of `old` in a block (or in blocks within it) as loads of `new`."""

    def load(node: Load) -> Expr | None:
        if node.buffer is not old:
            return None
        if node.pad_value is not None:
            raise ScheduleError(
                f"transform_layout cannot move what is outside a buffer; {old.name!r} is read "
                "through padded; use cache_read first"
            )
        extents: dict[Var, int] = {
            var: var.extent
            for index in node.indices
            for var in free_vars(index)
            if isinstance(var, Axis)
        }
        moved = (simplify(index, extents) for index in index_map.forward(node.indices))
        return Load(new, tuple(moved))

    return load


def _over_new_indices(site: Site, old: Buffer, new: Buffer, index_map: IndexMap) -> BlockRealize:
    """A block that stores at its own variables, with variables for the new dimensions instead."""
    block, binding = site.block, site.realize.binding
    replaced = _stored_at(block)
    names = index_map.names([axis.name for axis in replaced])
    axes = [Axis(name, extent=size) for name, size in zip(names, new.shape, strict=True)]
    moved = index_map.forward([binding[axis] for axis in replaced])
    kept = [
        (axis, value)
        for axis, value in zip(block.iter_vars, site.realize.values, strict=True)
        if axis not in replaced
    ]
    inverse: dict[Var, Expr] = dict(zip(replaced, index_map.backward(axes), strict=True))

    def own(node: Expr) -> Expr | None:
        same = isinstance(node, Load) and node.buffer is old and node.indices == replaced
        return Load(new, tuple(axes)) if same else None

    def rewritten(stmt: Stmt) -> Stmt:
        assert isinstance(stmt, BufferStore)
        return BufferStore(new, tuple(axes), substitute(rewrite(stmt.value, own), inverse))

    init = None if block.init is None else rewritten(block.init)
    iter_vars = (*axes, *(axis for axis, _ in kept))
    result = make_block(block.name, iter_vars, rewritten(block.body), init, block.annotations)
    values = (*(simplify(value, site.extents) for value in moved), *(value for _, value in kept))
    return BlockRealize(values, result, site.realize.predicate)


def _stored_at(block: Block) -> tuple[Axis, ...]:
    """The variables that a block stores at, each a dimension of its own."""
    store = block.body
    if isinstance(store, BufferStore):
        axes = tuple(index for index in store.indices if isinstance(index, Axis))
        if axes == store.indices and len(set(axes)) == len(axes):
            return axes
    raise ScheduleError(
        f"transform_layout needs blocks that store at their own variables; {block.name!r} does "
        "not; transform before blockize and tensorize"
    )
