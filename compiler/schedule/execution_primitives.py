"""Primitives that say how loops are executed, and hints for lowerings."""

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule import loops
from daedal.compiler.schedule.base import ScheduleBase
from daedal.compiler.schedule.edit import find_loop, find_site, replace_site
from daedal.compiler.schedule.handles import BlockRef, LoopRef
from daedal.compiler.schedule.recording import primitive
from daedal.compiler.tir.stmt import Value

__all__ = ["ExecutionPrimitives"]


class ExecutionPrimitives(ScheduleBase):
    """The part of `Schedule` that sets the kinds of loops, and annotates."""

    @primitive
    def unroll(self, loop: LoopRef) -> None:
        """Write the iterations of a loop out when code is made.

        >>> sch = row_sum()
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k in 8:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        >>> i, k = sch.get_loops(sch.get_block("s"))
        >>> sch.unroll(k)
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k in 8 unroll:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        """
        self._set_kind(loop, "unroll")

    @primitive
    def parallel(self, loop: LoopRef) -> None:
        """Run the iterations of a loop on several cores; they must be independent.

        >>> sch = row_sum()
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k in 8:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        >>> i, k = sch.get_loops(sch.get_block("s"))
        >>> sch.parallel(i)
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2 parallel, k in 8:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        """
        self._set_kind(loop, "parallel")

    @primitive
    def vectorize(self, loop: LoopRef) -> None:
        """Run the iterations of a loop in the lanes of a vector; they must be independent.

        >>> sch = row_sum()
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k in 8:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        >>> i, k = sch.get_loops(sch.get_block("s"))
        >>> sch.vectorize(i)
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2 vectorize, k in 8:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        """
        self._set_kind(loop, "vectorize")

    @primitive
    def bind(self, loop: LoopRef, axis: str) -> None:
        """Run the iterations of a loop along a GPU axis: "block.x" ... "thread.z".

        The outermost bound loop encloses a kernel: within it, an axis has one extent, is bound once
        around each block, and blocks lie outside threads (`daedal.compiler.tir.parallel`).

        >>> sch = matmul()
        >>> print(sch, end="")
        func matmul(a: int32[4, 2], b: int32[2, 2], out c: int32[4, 2]):
            for i in 4, j in 2, k in 2:
                block c(vi:4 = i, vj:2 = j, +vk:2 = k):
                    init:
                        c[vi, vj] = 0
                    c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vj, vk]
        >>> i, j, k = sch.get_loops(sch.get_block("c"))
        >>> sch.bind(i, "block.x")
        >>> sch.bind(j, "thread.x")
        >>> print(sch, end="")
        func matmul(a: int32[4, 2], b: int32[2, 2], out c: int32[4, 2]):
            for i in 4 block.x, j in 2 thread.x, k in 2:
                block c(vi:4 = i, vj:2 = j, +vk:2 = k):
                    init:
                        c[vi, vj] = 0
                    c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vj, vk]
        """
        self._set_kind(loop, axis)

    @primitive
    def virtual_thread(self, loop: LoopRef) -> None:
        """Interleave the iterations of a loop so that one computes while another loads.

        Buffers allocated inside the loop are per thread; those outside are shared, and loaded once.

        >>> sch = row_sum()
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k in 8:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        >>> i, k = sch.get_loops(sch.get_block("s"))
        >>> sch.virtual_thread(i)
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2 virtual_thread, k in 8:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        """
        self._set_kind(loop, "virtual_thread")

    @primitive
    def annotate(self, target: BlockRef | LoopRef, key: str, value: str | int | bool) -> None:
        """Attach a hint for a lowering to a block or a loop.

        >>> sch = row_sum()
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k in 8:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        >>> sch.annotate(sch.get_block("s"), "note", "two rows")
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k in 8:
                block s(vi:2 = i, +vk:8 = k) {note: "two rows"}:
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        """
        self._annotate(target, key, value)

    @primitive
    def pragma(self, loop: LoopRef, key: str, value: str | int | bool) -> None:
        """Attach ``pragma_key`` to a loop.

        >>> sch = row_sum()
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k in 8:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        >>> i, k = sch.get_loops(sch.get_block("s"))
        >>> sch.pragma(k, "unroll_limit", 4)
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k in 8 {pragma_unroll_limit: 4}:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        """
        self._annotate(loop, f"pragma_{key}", value)

    def _set_kind(self, loop: LoopRef, kind: str) -> None:
        bare = self.bare
        self._update(loops.set_kind(bare.body, find_loop(bare, loop.var), kind))

    def _annotate(self, target: BlockRef | LoopRef, key: str, value: Value) -> None:
        if isinstance(value, str) and value.startswith("%"):
            raise ScheduleError("the text of an annotation must not start with %")
        bare = self.bare
        if isinstance(target, LoopRef):
            self._update(loops.annotate_loop(bare.body, find_loop(bare, target.var), key, value))
            return
        realize = find_site(bare, target.name).realize
        notes = realize.block.annotations
        if key in ("intrin", "operands") or ("intrin" in notes and key in notes):
            raise ScheduleError(
                f"what an instruction is made from is tensorize's to write; {key!r} of block "
                f"{target.name!r} is part of it"
            )
        self._update(
            replace_site(bare.body, target.name, loops.annotated_block(realize, key, value))
        )
