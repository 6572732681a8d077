"""`Schedule`: a function and the primitives that transform it.

Input and output: `daedal.compiler.tir.stmt.PrimFunc`. Every call leaves a function that computes
the same and obeys the rules of the loop IR, or raises ScheduleError and changes nothing; every
call is recorded in `Schedule.trace`, which replays to the same function.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from daedal.compiler.schedule import cache, compute_at, decompose, inline, loops
from daedal.compiler.schedule.blockize import Nest, blockize, nest_at, nest_in
from daedal.compiler.schedule.edit import find_loop, find_site, replace_site
from daedal.compiler.schedule.handles import BlockRef, Handle, LoopRef
from daedal.compiler.schedule.placement import place_allocations, strip_allocations
from daedal.compiler.schedule.recording import HandleTable, primitive
from daedal.compiler.schedule.tensorize import Intrin, annotated, matched, tensorize
from daedal.compiler.schedule.trace import Trace
from daedal.compiler.tir.expr import Buffer, Var
from daedal.compiler.tir.printer import func_text
from daedal.compiler.tir.sites import collect
from daedal.compiler.tir.stmt import SCOPES, PrimFunc, Stmt, Value
from daedal.compiler.tir.verify import verify
from daedal.isa.errors import ScheduleError

__all__ = ["Schedule"]


class Schedule:
    """A function under transformation.

    Parameters
    ----------
    func
        What to transform; it is not changed, `Schedule.func` becomes the result.
    intrinsics
        What `tensorize` may refer to, by name.
    scopes
        The memory scopes of the target.
    seed
        Of the choices that the sampling primitives make.
    """

    def __init__(
        self,
        func: PrimFunc,
        intrinsics: Mapping[str, Intrin] | None = None,
        scopes: frozenset[str] = SCOPES,
        seed: int = 0,
    ) -> None:
        verify(func, scopes)
        self.func = func
        self.intrinsics = dict(intrinsics or {})
        self.scopes = scopes
        self.rng = np.random.default_rng(seed)
        self.handles = HandleTable()
        self.trace = Trace()

    def __str__(self) -> str:
        return func_text(self.func)

    # -- looking around ---------------------------------------------------------------------------

    @primitive
    def get_block(self, name: str) -> BlockRef:
        """The block called `name`."""
        find_site(self.func, name)
        return BlockRef(name)

    @primitive
    def get_loops(self, block: BlockRef) -> list[LoopRef]:
        """The loops around `block`, outermost first."""
        return [LoopRef(loop.var) for loop in find_site(self.func, block.name).loops]

    @primitive
    def get_child_blocks(self, loop: LoopRef) -> list[BlockRef]:
        """The blocks under `loop`, in order."""
        sites, _ = collect(find_loop(self.func, loop.var))
        return [BlockRef(site.block.name) for site in sites]

    @primitive
    def get_producers(self, block: BlockRef) -> list[BlockRef]:
        """The blocks that write what `block` reads, in order."""
        read = {region.buffer for region in find_site(self.func, block.name).block.reads}
        return self._touching(block, read, written=True)

    @primitive
    def get_consumers(self, block: BlockRef) -> list[BlockRef]:
        """The blocks that read what `block` writes, in order."""
        written = {region.buffer for region in find_site(self.func, block.name).block.writes}
        return self._touching(block, written, written=False)

    # -- loops ------------------------------------------------------------------------------------

    @primitive
    def split(self, loop: LoopRef, factors: Sequence[int | None]) -> list[LoopRef]:
        """Replace a loop by nested ones with extents `factors`, outermost first; one may be None.

        Where the factors do not divide the extent, a predicate clips the last iterations::

            for i in 7:
                block b(vi:7 = i)
            ->
            for i_0 in 2, i_1 in 4:
                block b(vi:7 = i_0 * 4 + i_1) where i_0 * 4 + i_1 < 7
        """
        bare = self._bare()
        body, variables = loops.split(bare.body, find_loop(bare, loop.var), factors)
        self._update(body)
        return [LoopRef(var) for var in variables]

    @primitive
    def fuse(self, *nested: LoopRef) -> LoopRef:
        """Replace loops directly inside one another by one over all their iterations::

        for i in 2, j in 3:              ->    for i_j in 6:
            block b(vi:2 = i, vj:3 = j)            block b(vi:2 = i_j // 3, vj:3 = i_j % 3)
        """
        bare = self._bare()
        body, var = loops.fuse(bare.body, [find_loop(bare, loop.var) for loop in nested])
        self._update(body)
        return LoopRef(var)

    @primitive
    def reorder(self, *order: LoopRef) -> None:
        """Put loops of one nest in the given order; the others stay where they are::

        for i in 2, j in 3, k in 4: ...    -> (k, i) ->    for k in 4, j in 3, i in 2: ...
        """
        bare = self._bare()
        self._update(loops.reorder(bare.body, [find_loop(bare, loop.var) for loop in order]))

    @primitive
    def unroll(self, loop: LoopRef) -> None:
        """Write the iterations of a loop out when code is made."""
        self._set_kind(loop, "unroll")

    @primitive
    def parallel(self, loop: LoopRef) -> None:
        """Run the iterations of a loop on several cores; they must be independent."""
        self._set_kind(loop, "parallel")

    @primitive
    def vectorize(self, loop: LoopRef) -> None:
        """Run the iterations of a loop in the lanes of a vector; they must be independent."""
        self._set_kind(loop, "vectorize")

    @primitive
    def bind(self, loop: LoopRef, axis: str) -> None:
        """Run the iterations of a loop along a GPU axis: "block.x" ... "thread.z"."""
        self._set_kind(loop, axis)

    @primitive
    def virtual_thread(self, loop: LoopRef) -> None:
        """Interleave the iterations of a loop so that one computes while another loads.

        Buffers allocated inside the loop are per thread; those outside are shared, and loaded once.
        """
        self._set_kind(loop, "virtual_thread")

    @primitive
    def annotate(self, target: BlockRef | LoopRef, key: str, value: str | int | bool) -> None:
        """Attach a hint for a lowering to a block or a loop."""
        self._annotate(target, key, value)

    @primitive
    def pragma(self, loop: LoopRef, key: str, value: str | int | bool) -> None:
        """Attach ``pragma_key`` to a loop."""
        self._annotate(loop, f"pragma_{key}", value)

    # -- moving blocks ----------------------------------------------------------------------------

    @primitive
    def compute_at(self, block: BlockRef, loop: LoopRef) -> None:
        """Compute a block under a loop of its consumers, each time just what they read there::

            for i in 8:                       ->    for i in 4, j in 2:
                block a(vi:8 = i): a[vi] = ...          alloc a: int8[9] window [i*2:+3]
            for i in 4, j in 2:                         for ...: block a(...): a[va] = ...
                block b(...): b[vb] = a[vb] + a[vb+1]   block b(...): ...

        The loops of the block are made anew, one per variable.
        """
        bare = self._bare()
        target = find_loop(bare, loop.var)
        self._update(compute_at.compute_at(bare, bare.body, block.name, target))

    @primitive
    def reverse_compute_at(self, block: BlockRef, loop: LoopRef) -> None:
        """Compute a block under a loop of its producers, for what they wrote there."""
        bare = self._bare()
        target = find_loop(bare, loop.var)
        self._update(compute_at.reverse_compute_at(bare, bare.body, block.name, target))

    @primitive
    def compute_inline(self, block: BlockRef) -> None:
        """Put the formula of a block where its result is read; the block and its buffer vanish."""
        bare = self._bare()
        self._update(inline.compute_inline(bare, bare.body, block.name))

    # -- memory -----------------------------------------------------------------------------------

    @primitive
    def cache_read(self, block: BlockRef, read: int | str, scope: str) -> BlockRef:
        """Read a buffer through a copy in `scope`; returns the copying block.

        `read` is the position among the reads of the block, or a buffer's name. Where the block
        reads through ``padded``, the copy holds the padding and the block reads it plainly::

            block b(vi:7 = i): y[vi] = x.padded(0)[vi - 1]
            ->
            block x_inp(vax0:7 = ax0) {copy: True}: x_inp[vax0] = x.padded(0)[vax0 - 1]
            block b(vi:7 = i): y[vi] = x_inp[vi]
        """
        bare = self._bare()
        body, name = cache.cache_read(bare, bare.body, block.name, read, scope)
        self._update(body)
        return BlockRef(name)

    @primitive
    def cache_write(self, block: BlockRef, write: int | str, scope: str) -> BlockRef:
        """Write a buffer through a copy in `scope`; returns the copying block, which follows.

        The copying block is named for the buffer it stores: ``y_store`` copies ``y_out`` to ``y``.
        """
        bare = self._bare()
        body, name = cache.cache_write(bare, bare.body, block.name, write, scope)
        self._update(body)
        return BlockRef(name)

    @primitive
    def set_scope(self, block: BlockRef, write: int | str, scope: str) -> None:
        """Keep a buffer that the block writes in memory scope `scope`."""
        bare = self._bare()
        body, old, new = cache.set_scope(bare, bare.body, block.name, write, scope)
        _, notes = strip_allocations(self.func)
        self._update(body, {new: notes.get(old, {})})

    @primitive
    def double_buffer(self, block: BlockRef, write: int | str = 0) -> None:
        """Keep two instances of a written buffer: filling one overlaps using the other."""
        bare = self._bare()
        site = find_site(bare, block.name)
        buffer = cache.pick(site, site.block.writes, write, "writes").buffer
        if buffer in self.func.params:
            raise ScheduleError(
                f"double_buffer needs an allocated buffer; {buffer.name!r} is a parameter"
            )
        _, notes = strip_allocations(self.func)
        self._update(bare.body, {buffer: {**notes.get(buffer, {}), "double_buffer": 2}})

    # -- reductions and instructions --------------------------------------------------------------

    @primitive
    def decompose_reduction(self, block: BlockRef, loop: LoopRef) -> BlockRef:
        """Initialize before `loop`, in a block ``name_init``, and only update in `block`."""
        bare = self._bare()
        target = find_loop(bare, loop.var)
        body, name = decompose.decompose_reduction(bare, bare.body, block.name, target)
        self._update(body)
        return BlockRef(name)

    @primitive
    def blockize(self, loop: LoopRef) -> BlockRef:
        """Make the nest from `loop` inwards one block over the loops outside."""
        bare = self._bare()
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
        """
        if intrin not in self.intrinsics:
            known = ", ".join(sorted(self.intrinsics)) or "none"
            raise ScheduleError(f"intrinsics of this schedule are {known}; {intrin!r} is not one")
        bare = self._bare()
        chosen = self.intrinsics[intrin]
        if isinstance(target, LoopRef):
            nest, outer = self._nest(bare, target, "tensorize")
            body, name = tensorize(bare.body, nest, outer, chosen)
        else:
            site = find_site(bare, target.name)
            nest = nest_in(site.realize)
            body, name = (
                annotated(bare.body, target.name, chosen, matched(nest, chosen)),
                target.name,
            )
        self._update(body)
        return BlockRef(name)

    # -- within -----------------------------------------------------------------------------------

    def _bare(self) -> PrimFunc:
        """The function without allocations: they are placed anew after every primitive."""
        body, _ = strip_allocations(self.func)
        return PrimFunc(self.func.name, self.func.params, body, self.func.num_outputs)

    def _update(
        self, body: Stmt, notes: Mapping[Buffer, Mapping[str, Value]] | None = None
    ) -> None:
        _, kept = strip_allocations(self.func)
        self.func = place_allocations(self.func, body, {**kept, **(notes or {})})

    def _set_kind(self, loop: LoopRef, kind: str) -> None:
        bare = self._bare()
        self._update(loops.set_kind(bare.body, find_loop(bare, loop.var), kind))

    def _annotate(self, target: Handle, key: str, value: Value) -> None:
        if isinstance(value, str) and value.startswith("%"):
            raise ScheduleError("the text of an annotation must not start with %")
        bare = self._bare()
        if isinstance(target, LoopRef):
            self._update(loops.annotate_loop(bare.body, find_loop(bare, target.var), key, value))
            return
        realize = find_site(bare, target.name).realize
        self._update(
            replace_site(bare.body, target.name, loops.annotated_block(realize, key, value))
        )

    def _nest(self, bare: PrimFunc, loop: LoopRef, what: str) -> tuple[Nest, dict[Var, int]]:
        """The nest from `loop` inwards, and the extents of the loops around it."""
        nest = nest_at(find_loop(bare, loop.var), what)
        site = find_site(bare, nest.realize.block.name)
        outer = {v: n for v, n in site.extents.items() if v not in nest.extents}
        return nest, outer

    def _touching(self, block: BlockRef, buffers: set[Buffer], written: bool) -> list[BlockRef]:
        sites, _ = collect(self.func.body)
        found = []
        for site in sites:
            regions = site.block.writes if written else site.block.reads
            if site.block.name != block.name and any(r.buffer in buffers for r in regions):
                found.append(BlockRef(site.block.name))
        return found
