"""Primitives on loops: how they are cut and ordered."""

from collections.abc import Sequence

from daedal.compiler.schedule import loops
from daedal.compiler.schedule.base import ScheduleBase
from daedal.compiler.schedule.edit import find_loop
from daedal.compiler.schedule.handles import LoopRef
from daedal.compiler.schedule.recording import primitive

__all__ = ["LoopPrimitives"]


class LoopPrimitives(ScheduleBase):
    """The part of `Schedule` that cuts, joins and orders loops."""

    @primitive
    def split(self, loop: LoopRef, factors: Sequence[int | None]) -> list[LoopRef]:
        """Replace a loop by nested ones with extents `factors`, outermost first; one may be None.

        Where the factors do not divide the extent, a predicate clips the last iterations.

        >>> sch = chain()
        >>> print(sch, end="")
        func chain(a: int32[8], out c: int32[8]):
            alloc b: int32[8]
            for i in 8:
                block b(vi:8 = i):
                    b[vi] = a[vi] + 1
            for i in 8:
                block c(vi:8 = i):
                    c[vi] = b[vi] * 2
        >>> (i,) = sch.get_loops(sch.get_block("b"))
        >>> i_0, i_1 = sch.split(i, [None, 3])
        >>> print(sch, end="")
        func chain(a: int32[8], out c: int32[8]):
            alloc b: int32[8]
            for i_0 in 3, i_1 in 3:
                block b(vi:8 = i_0 * 3 + i_1) where i_0 * 3 + i_1 < 8:
                    b[vi] = a[vi] + 1
            for i in 8:
                block c(vi:8 = i):
                    c[vi] = b[vi] * 2
        """
        bare = self.bare
        body, variables = loops.split(bare.body, find_loop(bare, loop.var), factors)
        self._update(body)
        return [LoopRef(var) for var in variables]

    @primitive
    def tile(self, nested: Sequence[LoopRef], factors: Sequence[int]) -> list[LoopRef]:
        """Cut loops of one nest into tiles of `factors`; returns the outer loops, then the inner.

        Splits each loop and reorders the parts.

        >>> sch = matmul()
        >>> print(sch, end="")
        func matmul(a: int32[4, 2], b: int32[2, 2], out c: int32[4, 2]):
            for i in 4, j in 2, k in 2:
                block c(vi:4 = i, vj:2 = j, +vk:2 = k):
                    init:
                        c[vi, vj] = 0
                    c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vj, vk]
        >>> i, j, k = sch.get_loops(sch.get_block("c"))
        >>> i_0, j_0, i_1, j_1 = sch.tile([i, j], [2, 1])
        >>> print(sch, end="")
        func matmul(a: int32[4, 2], b: int32[2, 2], out c: int32[4, 2]):
            for i_0 in 2, j_0 in 2, i_1 in 2, j_1 in 1, k in 2:
                block c(vi:4 = i_0 * 2 + i_1, vj:2 = j_0 + j_1, +vk:2 = k):
                    init:
                        c[vi, vj] = 0
                    c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vj, vk]
        """
        bare = self.bare
        chosen = [find_loop(bare, loop.var) for loop in nested]
        body, outer, inner = loops.tile(bare.body, chosen, factors)
        self._update(body)
        return [LoopRef(var) for var in (*outer, *inner)]

    @primitive
    def fuse(self, *nested: LoopRef) -> LoopRef:
        """Replace loops directly inside one another by one over all their iterations.

        >>> sch = matmul()
        >>> print(sch, end="")
        func matmul(a: int32[4, 2], b: int32[2, 2], out c: int32[4, 2]):
            for i in 4, j in 2, k in 2:
                block c(vi:4 = i, vj:2 = j, +vk:2 = k):
                    init:
                        c[vi, vj] = 0
                    c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vj, vk]
        >>> i, j, k = sch.get_loops(sch.get_block("c"))
        >>> fused = sch.fuse(i, j)
        >>> print(sch, end="")
        func matmul(a: int32[4, 2], b: int32[2, 2], out c: int32[4, 2]):
            for i_j in 8, k in 2:
                block c(vi:4 = i_j // 2, vj:2 = i_j % 2, +vk:2 = k):
                    init:
                        c[vi, vj] = 0
                    c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vj, vk]
        """
        bare = self.bare
        body, var = loops.fuse(bare.body, [find_loop(bare, loop.var) for loop in nested])
        self._update(body)
        return LoopRef(var)

    @primitive
    def reorder(self, *order: LoopRef) -> None:
        """Put loops of one nest in the given order; the others stay where they are.

        >>> sch = matmul()
        >>> print(sch, end="")
        func matmul(a: int32[4, 2], b: int32[2, 2], out c: int32[4, 2]):
            for i in 4, j in 2, k in 2:
                block c(vi:4 = i, vj:2 = j, +vk:2 = k):
                    init:
                        c[vi, vj] = 0
                    c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vj, vk]
        >>> i, j, k = sch.get_loops(sch.get_block("c"))
        >>> sch.reorder(k, i)
        >>> print(sch, end="")
        func matmul(a: int32[4, 2], b: int32[2, 2], out c: int32[4, 2]):
            for k in 2, j in 2, i in 4:
                block c(vi:4 = i, vj:2 = j, +vk:2 = k):
                    init:
                        c[vi, vj] = 0
                    c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vj, vk]
        """
        bare = self.bare
        self._update(loops.reorder(bare.body, [find_loop(bare, loop.var) for loop in order]))
