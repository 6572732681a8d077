"""Primitives that say where a block is computed."""

from daedal.compiler.schedule import compute_at, inline
from daedal.compiler.schedule.base import ScheduleBase
from daedal.compiler.schedule.edit import find_loop
from daedal.compiler.schedule.handles import BlockRef, LoopRef
from daedal.compiler.schedule.recording import primitive

__all__ = ["BlockPrimitives"]


class BlockPrimitives(ScheduleBase):
    """The part of `Schedule` that moves blocks."""

    @primitive
    def compute_at(self, block: BlockRef, loop: LoopRef) -> None:
        """Compute a block under a loop of its consumers, each time just what they read there.

        The loops of the block are made anew, one per variable; its buffer shrinks to a window.

        >>> sch = chain()
        >>> (i,) = sch.get_loops(sch.get_block("c"))
        >>> i_0, i_1 = sch.split(i, [None, 4])
        >>> print(sch, end="")
        func chain(a: int32[8], out c: int32[8]):
            alloc b: int32[8]
            for i in 8:
                block b(vi:8 = i):
                    b[vi] = a[vi] + 1
            for i_0 in 2, i_1 in 4:
                block c(vi:8 = i_0 * 4 + i_1):
                    c[vi] = b[vi] * 2
        >>> sch.compute_at(sch.get_block("b"), i_0)
        >>> print(sch, end="")
        func chain(a: int32[8], out c: int32[8]):
            for i_0 in 2:
                alloc b: int32[8] window [i_0 * 4:+4]
                for i in 4:
                    block b(vi:8 = i_0 * 4 + i):
                        b[vi] = a[vi] + 1
                for i_1 in 4:
                    block c(vi:8 = i_0 * 4 + i_1):
                        c[vi] = b[vi] * 2
        """
        bare = self.bare
        target = find_loop(bare, loop.var)
        self._update(compute_at.compute_at(bare, bare.body, block.name, target))

    @primitive
    def reverse_compute_at(self, block: BlockRef, loop: LoopRef) -> None:
        """Compute a block under a loop of its producers, for what they wrote there.

        >>> sch = chain()
        >>> (i,) = sch.get_loops(sch.get_block("b"))
        >>> i_0, i_1 = sch.split(i, [None, 4])
        >>> print(sch, end="")
        func chain(a: int32[8], out c: int32[8]):
            alloc b: int32[8]
            for i_0 in 2, i_1 in 4:
                block b(vi:8 = i_0 * 4 + i_1):
                    b[vi] = a[vi] + 1
            for i in 8:
                block c(vi:8 = i):
                    c[vi] = b[vi] * 2
        >>> sch.reverse_compute_at(sch.get_block("c"), i_0)
        >>> print(sch, end="")
        func chain(a: int32[8], out c: int32[8]):
            for i_0 in 2:
                alloc b: int32[8] window [i_0 * 4:+4]
                for i_1 in 4:
                    block b(vi:8 = i_0 * 4 + i_1):
                        b[vi] = a[vi] + 1
                for i in 4:
                    block c(vi:8 = i_0 * 4 + i):
                        c[vi] = b[vi] * 2
        """
        bare = self.bare
        target = find_loop(bare, loop.var)
        self._update(compute_at.reverse_compute_at(bare, bare.body, block.name, target))

    @primitive
    def compute_inline(self, block: BlockRef) -> None:
        """Put the formula of a block where its result is read; the block and its buffer vanish.

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
        >>> sch.compute_inline(sch.get_block("b"))
        >>> print(sch, end="")
        func chain(a: int32[8], out c: int32[8]):
            for i in 8:
                block c(vi:8 = i):
                    c[vi] = (a[vi] + 1) * 2
        """
        bare = self.bare
        self._update(inline.compute_inline(bare, bare.body, block.name))

    @primitive
    def reverse_compute_inline(self, block: BlockRef) -> None:
        """Let the producer store what a block, its only consumer, makes of it; the block vanishes.

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
        >>> sch.reverse_compute_inline(sch.get_block("c"))
        >>> print(sch, end="")
        func chain(a: int32[8], out c: int32[8]):
            for i in 8:
                block b(vi:8 = i):
                    c[vi] = (a[vi] + 1) * 2
        """
        bare = self.bare
        self._update(inline.reverse_compute_inline(bare, bare.body, block.name))
