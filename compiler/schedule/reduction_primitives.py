"""Primitives on reductions, and those that make a nest one block or one instruction."""

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule.base import ScheduleBase
from daedal.compiler.schedule.blockize import Nest, blockize, nest_at, nest_in
from daedal.compiler.schedule.cache import unique_name
from daedal.compiler.schedule.decompose import decompose_reduction
from daedal.compiler.schedule.edit import find_loop, find_site
from daedal.compiler.schedule.handles import BlockRef, LoopRef
from daedal.compiler.schedule.recording import primitive
from daedal.compiler.schedule.rfactor import rfactor
from daedal.compiler.schedule.tensorize import annotated, matched, tensorize
from daedal.compiler.tir.expr import Var
from daedal.compiler.tir.stmt import PrimFunc

__all__ = ["ReductionPrimitives"]


class ReductionPrimitives(ScheduleBase):
    """The part of `Schedule` that takes reductions apart and makes instructions."""

    @primitive
    def decompose_reduction(self, block: BlockRef, loop: LoopRef) -> BlockRef:
        """Initialize before `loop`, in a block ``name_init``, and only update in `block`.

        >>> sch = row_sum()
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k in 8:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        >>> i, k = sch.get_loops(sch.get_block("s"))
        >>> init = sch.decompose_reduction(sch.get_block("s"), k)
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2:
                block s_init(vi:2 = i):
                    s[vi] = 0
                for k in 8:
                    block s(vi:2 = i, +vk:8 = k):
                        s[vi] = s[vi] + x[vi, vk]
        """
        bare = self.bare
        name = unique_name(bare, f"{block.name}_init")
        target = find_loop(bare, loop.var)
        self._update(decompose_reduction(bare, bare.body, block.name, target, name))
        return BlockRef(name)

    @primitive
    def rfactor(self, block: BlockRef, loop: LoopRef, dim: int = 0) -> BlockRef:
        """Reduce per iteration of `loop` first, then over it; returns the block of the first.

        Its results lie in a buffer with one dimension more, at position `dim`. The iterations of
        `loop` become independent, so that it can be vectorized or run in parallel.

        >>> sch = row_sum()
        >>> i, k = sch.get_loops(sch.get_block("s"))
        >>> k_0, k_1 = sch.split(k, [None, 4])
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k_0 in 2, k_1 in 4:
                block s(vi:2 = i, +vk:8 = k_0 * 4 + k_1):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        >>> partial = sch.rfactor(sch.get_block("s"), k_1)
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2:
                alloc s_rf: int32[4, 2] window [0:+4, i:+1]
                for k_0 in 2, k_1 in 4:
                    block s_rf(vk_1:4 = k_1, vi:2 = i, +vk_0:2 = k_0):
                        init:
                            s_rf[vk_1, vi] = 0
                        s_rf[vk_1, vi] = s_rf[vk_1, vi] + x[vi, vk_0 * 4 + vk_1]
                for k_1 in 4:
                    block s(vi:2 = i, +vk_1:4 = k_1):
                        init:
                            s[vi] = 0
                        s[vi] = s[vi] + s_rf[vk_1, vi]
        """
        bare = self.bare
        name = unique_name(bare, f"{block.name}_rf")
        target = find_loop(bare, loop.var)
        self._update(rfactor(bare, bare.body, block.name, target, dim, name))
        return BlockRef(name)

    @primitive
    def blockize(self, loop: LoopRef) -> BlockRef:
        """Make the nest from `loop` inwards one block over the loops outside.

        >>> sch = row_sum()
        >>> i, k = sch.get_loops(sch.get_block("s"))
        >>> k_0, k_1 = sch.split(k, [None, 4])
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k_0 in 2, k_1 in 4:
                block s(vi:2 = i, +vk:8 = k_0 * 4 + k_1):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        >>> block = sch.blockize(k_1)
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k_0 in 2:
                block s(vi:2 = i, +vk:2 = k_0):
                    reads x[vi, vk * 4:+4]
                    writes s[vi]
                    init:
                        block s_init(vi:2 = vi):
                            s[vi] = 0
                    for k_1 in 4:
                        block s_body(vi:2 = vi, +vk:8 = vk * 4 + k_1):
                            s[vi] = s[vi] + x[vi, vk]
        """
        bare = self.bare
        nest, outer = self._nest(bare, loop, "blockize")
        body, name = blockize(bare.body, nest.loops[0], outer)
        self._update(body)
        return BlockRef(name)

    @primitive
    def tensorize(self, target: LoopRef | BlockRef, intrin: str) -> BlockRef:
        """Make the nest from a loop inwards (or within a block made by `blockize`) one instruction.

        The nest must compute the pattern of the intrinsic, up to the order of loops and of
        commutative operands. The block keeps its meaning as its body and is annotated with
        ``intrin``, ``operands`` (the intrinsic's names of what the block reads, in order) and the
        intrinsic's immediates.

        >>> sch = matmul()
        >>> i, j, k = sch.get_loops(sch.get_block("c"))
        >>> print(sch, end="")
        func matmul(a: int32[4, 2], b: int32[2, 2], out c: int32[4, 2]):
            for i in 4, j in 2, k in 2:
                block c(vi:4 = i, vj:2 = j, +vk:2 = k):
                    init:
                        c[vi, vj] = 0
                    c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vj, vk]
        >>> block = sch.tensorize(j, "mac")
        >>> print(sch, end="")
        func matmul(a: int32[4, 2], b: int32[2, 2], out c: int32[4, 2]):
            for i in 4:
                block c(vi:4 = i) {intrin: mac, operands: "x,y"}:
                    reads a[vi, 0:+2], b[0:+2, 0:+2]
                    writes c[vi, 0:+2]
                    init:
                        for j in 2:
                            block c_init(vi:4 = vi, vj:2 = j):
                                c[vi, vj] = 0
                    for j in 2, k in 2:
                        block c_body(vi:4 = vi, vj:2 = j, +vk:2 = k):
                            c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vj, vk]
        """
        if intrin not in self.intrinsics:
            known = ", ".join(sorted(self.intrinsics)) or "none"
            raise ScheduleError(f"intrinsics of this schedule are {known}; {intrin!r} is not one")
        bare = self.bare
        chosen = self.intrinsics[intrin]
        if isinstance(target, LoopRef):
            nest, outer = self._nest(bare, target, "tensorize")
            body, name = tensorize(bare.body, nest, outer, chosen)
        else:
            nest, name = nest_in(find_site(bare, target.name).realize), target.name
            body = annotated(bare.body, name, chosen, matched(nest, chosen))
        self._update(body)
        return BlockRef(name)

    def _nest(self, bare: PrimFunc, loop: LoopRef, what: str) -> tuple[Nest, dict[Var, int]]:
        """The nest from `loop` inwards, and the extents of the loops around it."""
        nest = nest_at(find_loop(bare, loop.var), what)
        site = find_site(bare, nest.realize.block.name)
        outer = {v: n for v, n in site.extents.items() if v not in nest.extents}
        return nest, outer
