"""Primitives on buffers: copies, memory scopes, layouts and how they are allocated."""

from collections.abc import Sequence

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule import cache
from daedal.compiler.schedule.base import ScheduleBase
from daedal.compiler.schedule.edit import find_site
from daedal.compiler.schedule.handles import BlockRef
from daedal.compiler.schedule.layout import transform_layout
from daedal.compiler.schedule.recording import primitive
from daedal.compiler.tir.expr import Buffer
from daedal.compiler.tir.stmt import PrimFunc

__all__ = ["MemoryPrimitives"]


class MemoryPrimitives(ScheduleBase):
    """The part of `Schedule` that says where data lies."""

    @primitive
    def cache_read(
        self, block: BlockRef, read: int | str, scope: str, consumers: Sequence[BlockRef] = ()
    ) -> BlockRef:
        """Read a buffer through a copy in `scope`; returns the copying block.

        `read` is the position among the reads of the block, or a buffer's name. Where the block
        reads through ``padded``, the copy holds the padding and the block reads it plainly.
        `consumers` are other blocks that read the same copy: it holds what all of them read.

        >>> sch = row_sum()
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k in 8:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        >>> copy = sch.cache_read(sch.get_block("s"), "x", "inp")
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            alloc x_inp: int32[2, 8] in inp
            for ax0 in 2, ax1 in 8:
                block x_inp(vax0:2 = ax0, vax1:8 = ax1) {copy: True}:
                    x_inp[vax0, vax1] = x[vax0, vax1]
            for i in 2, k in 8:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x_inp[vi, vk]
        """
        bare = self.bare
        body, name = cache.cache_read(
            bare, bare.body, block.name, read, scope, [other.name for other in consumers]
        )
        self._update(body)
        return BlockRef(name)

    @primitive
    def cache_write(self, block: BlockRef, write: int | str, scope: str) -> BlockRef:
        """Write a buffer through a copy in `scope`; returns the copying block, which follows.

        The copying block is named for the buffer it stores: ``y_store`` copies ``y_out`` to ``y``.

        >>> sch = row_sum()
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k in 8:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        >>> copy = sch.cache_write(sch.get_block("s"), 0, "acc")
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            alloc s_acc: int32[2] in acc
            for i in 2, k in 8:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s_acc[vi] = 0
                    s_acc[vi] = s_acc[vi] + x[vi, vk]
            for ax0 in 2:
                block s_store(vax0:2 = ax0) {copy: True}:
                    s[vax0] = s_acc[vax0]
        """
        bare = self.bare
        body, name = cache.cache_write(bare, bare.body, block.name, write, scope)
        self._update(body)
        return BlockRef(name)

    @primitive
    def set_scope(self, block: BlockRef, write: int | str, scope: str) -> None:
        """Keep a buffer that the block writes in memory scope `scope`.

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
        >>> sch.set_scope(sch.get_block("b"), 0, "acc")
        >>> print(sch, end="")
        func chain(a: int32[8], out c: int32[8]):
            alloc b: int32[8] in acc
            for i in 8:
                block b(vi:8 = i):
                    b[vi] = a[vi] + 1
            for i in 8:
                block c(vi:8 = i):
                    c[vi] = b[vi] * 2
        """
        bare = self.bare
        body, old, new = cache.set_scope(bare, bare.body, block.name, write, scope)
        self._update(body, {new: self._notes(old)})

    @primitive
    def transform_layout(self, block: BlockRef, write: int | str, layout: str) -> None:
        """Lay a buffer that the block writes out in another way, in every block that uses it.

        `layout` says where an element goes, as a reversible map: sums of ``i``, ``i // 4``,
        ``i % 4`` or ``i // 4 % 2``, each with a constant factor. What a tile of loops writes must
        be a box in the new layout too.

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
        >>> sch.transform_layout(sch.get_block("b"), 0, "i -> i % 4, i // 4")
        >>> print(sch, end="")
        func chain(a: int32[8], out c: int32[8]):
            alloc b: int32[4, 2]
            for i in 8:
                block b(vi_0:4 = i % 4, vi_1:2 = i // 4):
                    b[vi_0, vi_1] = a[vi_0 + vi_1 * 4] + 1
            for i in 8:
                block c(vi:8 = i):
                    c[vi] = b[vi % 4, vi // 4] * 2
        """
        bare = self.bare
        old = self._allocated(bare, block, write, "transform_layout")
        body, new = transform_layout(bare.body, old, layout)
        if any(key.startswith("align_") for key in self._notes(old)):
            raise ScheduleError(
                f"transform_layout needs a buffer without storage_align, not {old.name!r}; "
                "transform first"
            )
        self._update(body, {new: self._notes(old)})

    @primitive
    def storage_align(
        self, block: BlockRef, write: int | str, dim: int, factor: int, offset: int = 0
    ) -> None:
        """Allocate a buffer so that steps along `dim` are a multiple of `factor`, plus `offset`.

        In elements. It keeps rows apart that would fall on the same bank of a memory.

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
        >>> sch.storage_align(sch.get_block("b"), 0, 0, 32, 8)
        >>> print(sch, end="")
        func chain(a: int32[8], out c: int32[8]):
            alloc b: int32[8] {align_0: "32n+8"}
            for i in 8:
                block b(vi:8 = i):
                    b[vi] = a[vi] + 1
            for i in 8:
                block c(vi:8 = i):
                    c[vi] = b[vi] * 2
        """
        bare = self.bare
        buffer = self._allocated(bare, block, write, "storage_align")
        if not 0 <= dim < len(buffer.shape):
            raise ScheduleError(
                f"storage_align needs a dimension from 0 to {len(buffer.shape) - 1} of "
                f"{buffer.name!r}, not {dim}"
            )
        if factor < 1 or not 0 <= offset < factor:
            raise ScheduleError(
                f"storage_align needs a positive factor and an offset below it, not {factor} and "
                f"{offset}"
            )
        notes = {**self._notes(buffer), f"align_{dim}": f"{factor}n+{offset}"}
        self._update(bare.body, {buffer: notes})

    @primitive
    def double_buffer(self, block: BlockRef, write: int | str = 0) -> None:
        """Keep two instances of a written buffer: filling one overlaps using the other.

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
        >>> sch.double_buffer(sch.get_block("b"))
        >>> print(sch, end="")
        func chain(a: int32[8], out c: int32[8]):
            alloc b: int32[8] {double_buffer: 2}
            for i in 8:
                block b(vi:8 = i):
                    b[vi] = a[vi] + 1
            for i in 8:
                block c(vi:8 = i):
                    c[vi] = b[vi] * 2
        """
        bare = self.bare
        buffer = self._allocated(bare, block, write, "double_buffer")
        self._update(bare.body, {buffer: {**self._notes(buffer), "double_buffer": 2}})

    @primitive
    def stage(self, block: BlockRef, write: int | str, stages: int, *, boxes: bool = False) -> None:
        """Keep several instances of a written buffer, and begin to fill one some iterations ahead.

        With 3 stages, the loop around the buffer begins the copies of two iterations later, while
        those of the next one are under way. Copies are asynchronous: `daedal.compiler.tir.lower`
        places them, the waits and the barriers, in kernels of GPUs alone. With `boxes`, one thread
        has the whole buffer copied (sm_90a): loops around its block must not be bound to threads.

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
        >>> sch.stage(sch.get_block("b"), 0, 3)
        >>> print(sch, end="")
        func chain(a: int32[8], out c: int32[8]):
            alloc b: int32[8] {stages: 3}
            for i in 8:
                block b(vi:8 = i):
                    b[vi] = a[vi] + 1
            for i in 8:
                block c(vi:8 = i):
                    c[vi] = b[vi] * 2
        """
        if stages < 2:
            raise ScheduleError(f"stage needs at least 2 stages, not {stages}; leave it out")
        bare = self.bare
        buffer = self._allocated(bare, block, write, "stage")
        notes = {"stages": stages, **({"boxes": True} if boxes else {})}
        self._update(bare.body, {buffer: {**self._notes(buffer), **notes}})

    @primitive
    def swizzle(
        self, block: BlockRef, write: int | str, every: int = 128, *, panels: bool = False
    ) -> None:
        """Permute a written buffer in a GPU's shared memory, against bank conflicts.

        The numbers of the chunks of 16 bytes in a line of 128 bytes are xored with that of the
        line; with a larger `every`, so many bytes have the same permutation: those of a row, if it
        is longer than a line. Rows of 16 bytes below each other are then in different banks.
        With `panels`, the first lines of all rows follow each other, then the second ones, and so
        on: rows and their bytes must be powers of two.

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
        >>> sch.swizzle(sch.get_block("b"), 0)
        >>> print(sch, end="")
        func chain(a: int32[8], out c: int32[8]):
            alloc b: int32[8] {swizzle: 128}
            for i in 8:
                block b(vi:8 = i):
                    b[vi] = a[vi] + 1
            for i in 8:
                block c(vi:8 = i):
                    c[vi] = b[vi] * 2
        """
        if every < 128 or every & (every - 1):
            raise ScheduleError(
                f"swizzle needs a power of two from 128 bytes on, not {every}; leave it out"
            )
        bare = self.bare
        buffer = self._allocated(bare, block, write, "swizzle")
        notes = {"swizzle": every, **({"panels": True} if panels else {})}
        self._update(bare.body, {buffer: {**self._notes(buffer), **notes}})

    def _allocated(self, bare: PrimFunc, block: BlockRef, write: int | str, what: str) -> Buffer:
        """A buffer that a block writes and the function allocates."""
        site = find_site(bare, block.name)
        buffer = cache.pick(site, site.block.writes, write, "writes").buffer
        if buffer in self.bare.params:
            raise ScheduleError(
                f"{what} needs a buffer that the function allocates; {buffer.name!r} is a "
                "parameter; use cache_write"
            )
        return buffer
