"""`GroupProducts`: products of matrices that a group of four warps begins and waits for.

Both operands are read from shared memory, in lines of 128 bytes whose chunks are swizzled. Where
terms follow each other in memory, a line has those of one row or column of the result; where rows
or columns do, a line has these for one term, and buffers lie in panels of such lines. Source:
NVIDIA, PTX ISA 8.0, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions": "Shared
Memory Matrix Layout", "Matrix Descriptor Format".
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daedal.common.errors import UnsupportedError
from daedal.compiler.codegen.llvm.expressions import Expressions
from daedal.compiler.codegen.llvm.places import LINE_BYTES
from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES, suffix
from daedal.compiler.tir.evaluate import evaluate
from daedal.compiler.tir.expr import Buffer, Load, Var
from daedal.compiler.tir.linear import accessed_element
from daedal.compiler.tir.lower.threads import no_load
from daedal.compiler.tir.stmt import BufferStore, For, Stmt
from daedal.compiler.tir.visit import free_vars
from daedal.compiler.tir.warp_products import (
    COLUMNS,
    GROUP_WARPS,
    WARP_THREADS,
    WarpProduct,
    factors_of,
)

__all__ = ["GroupProducts"]

ROWS = 8
"""Lines that a swizzle permutes in different ways."""
HALF_BYTES = 2
"""Of an element; smaller ones must lie along the terms."""

Numbers = npt.NDArray[np.int64]


class GroupProducts:
    """Writes products of groups of warps, and what orders them, into the text of a kernel."""

    def __init__(self, at: Expressions) -> None:
        self._at = at

    def fence(self, sums: Buffer) -> None:
        """See `stmt.FenceSums`."""
        self._of_sums("fence", sums)

    def wait(self, newest: int, sums: Buffer | None) -> None:
        """See `stmt.WaitForProducts`."""
        if sums is None:
            self._at.text.line(f"call void @gpu.wgmma.wait(ptr %gpu, i32 {newest})")
            return
        assert newest == 0
        self._of_sums("finish", sums)

    def _of_sums(self, name: str, sums: Buffer) -> None:
        kind = f"n{math.prod(sums.shape) // 2 - 2 + COLUMNS}{suffix(sums.dtype, 0)}"
        given = f"ptr %gpu, {self._described_sums(sums)}"
        self._at.text.line(f"call void @gpu.wgmma.{name}.{kind}({given})")

    def write(self, product: WarpProduct, nest: For, lane: Var, warp: Var) -> None:
        """Begin a product, whose loops and `lane` are as `lane_loops` makes them; `warp` is the
        loop of the warps of a block.

        Raises UnsupportedError for operands that do not lie as the instruction wants them.
        """
        loops: dict[Var, int] = {}
        inner: Stmt = nest
        while isinstance(inner, For):
            loops[inner.var] = inner.extent
            inner = inner.body
        assert isinstance(inner, BufferStore)
        found = factors_of(inner)
        assert found is not None
        total, one, other = found
        rows, eight, pair, term = loops
        is_first = any(rows in free_vars(index) for index in one.indices)
        a, b = (one, other) if is_first else (other, one)
        i, w, t, k = np.ogrid[:2, :GROUP_WARPS, :WARP_THREADS, : product.depth]
        own = _Elements({rows: i, warp: w, lane: t, term: k}, w * 16 + i * 8 + t // 4, k)
        first, first_kind = self._operand(a, own, warp, product)
        e, j = np.ogrid[: product.columns // COLUMNS, :2, :1, :1][:2]
        own = _Elements({eight: e, pair: j, lane: t, term: k}, e * COLUMNS + t % 4 * 2 + j, k)
        second, second_kind = self._operand(b, own, warp, product)
        place = accessed_element(total)
        row, column = _distances(total.buffer)
        steps = tuple(place.coefficient(var) for var in (rows, eight, pair))
        assert steps == (row, COLUMNS * column, column) and place.constant == 0
        name = f"{product.name}.{first_kind}{second_kind}"
        sums = self._described_sums(total.buffer)
        given = f"ptr %gpu, i64 {first}, i64 {second}, {sums}"
        self._at.text.line(f"call void @gpu.{name}({given})")

    def _described_sums(self, sums: Buffer) -> str:
        """The first sum of a thread, and how far the others are apart."""
        row, column = _distances(sums)
        return f"{self._at.pointers[sums]}, i64 {row}, i64 {column}"

    def _operand(
        self, load: Load, own: "_Elements", warp: Var, product: WarpProduct
    ) -> tuple[str, str]:
        """What the instruction is told of an operand, and whether its terms follow each other in
        memory (``k``), or its rows or columns (``m``)."""
        at, buffer = self._at, load.buffer
        size = ELEMENT_BYTES[buffer.dtype]
        line = LINE_BYTES // size
        parts = accessed_element(load).split(own.values)
        if parts is None or at.swizzles.get(buffer) != LINE_BYTES:
            raise _refused(buffer, product)
        inner, outer = parts
        found = np.asarray(evaluate(inner.expr(), own.values, no_load), np.int64)
        extents = [
            at.extents.get(item, 0) if isinstance(item, Var) else 0 for item, _ in outer.terms
        ]
        others = [
            (factor, extent)
            for (_, factor), extent in zip(outer.terms, extents, strict=True)
            if extent != 1
        ]
        if buffer not in at.panels:
            kind, leading = "k", 0
            fits = _alike(found, own.numbers * line + own.terms) and all(
                factor % (ROWS * line) == 0
                or (factor % product.depth == 0 and factor * extent <= line)
                for factor, extent in others
            )
        else:
            row_bytes, rows = at.panels[buffer]
            row = row_bytes // size
            kind, leading = "m", rows * LINE_BYTES
            fits = _alike(found, own.terms * row + own.numbers) and all(
                factor % (ROWS * row) == 0 or factor % line == 0 for factor, _ in others
            )
        if not fits or outer.constant or (kind == "m" and size != HALF_BYTES):
            raise _refused(buffer, product)
        return self._described(load, own, warp, leading), kind

    def _described(self, load: Load, own: "_Elements", warp: Var, leading: int) -> str:
        """The descriptor of a matrix, from its first element on: the one of the first warp."""
        at, before = self._at, dict(self._at.values)
        with at.text.at(at.places[0]):
            first = at.text.value(f"and i64 {before[warp]}, {-GROUP_WARPS}")
        at.values.update(dict.fromkeys(own.values, 0))
        at.values[warp] = first
        address = at.address(load.buffer, at.place(load))
        at.values.clear()
        at.values.update(before)
        given = f"ptr %gpu, {address}, i64 {leading}, i64 {ROWS * LINE_BYTES}"
        return at.text.value(f"call i64 @gpu.matrix({given})")


@dataclass(frozen=True)
class _Elements:
    """What a product reads of an operand, by the loops around it.

    Attributes
    ----------
    values : of variables, as arrays that broadcast.
    numbers, terms : of the row or column of each element, and of its term.
    """

    values: Mapping[Var, Numbers]
    numbers: Numbers
    terms: Numbers


def _distances(sums: Buffer) -> tuple[int, int]:
    """Elements from one row of a thread's sums to the other, and from one column to the next: a
    thread has two rows, and pairs of columns with gaps in between."""
    extents = [extent for extent in sums.shape if extent > 1]
    assert len(extents) == 2 and 2 in extents, sums
    return (extents[1], 1) if extents[0] == 2 else (1, 2)


def _alike(one: Numbers, other: Numbers) -> bool:
    return bool((one == other).all())


def _refused(buffer: Buffer, product: WarpProduct) -> UnsupportedError:
    return UnsupportedError(
        f"operands of {product.name!r} must lie in swizzled lines of 128 bytes, of terms or, in "
        f"panels, of rows or columns of 16 bits, and {buffer.name!r} does not; schedule it as "
        "`ops.gpu.group_cores` does, or use products of one warp"
    )
