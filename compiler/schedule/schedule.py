"""`Schedule`: a function and the primitives that transform it.

Input and output: `daedal.compiler.tir.stmt.PrimFunc`. Every call leaves a function that computes
the same and obeys the rules of the loop IR, or raises ScheduleError and changes nothing; every
call is recorded in `Schedule.trace`, which replays to the same function.

The primitives are documented, with the loop IR before and after, where their families are:

- loops: `daedal.compiler.schedule.loop_primitives`
- how loops are executed: `daedal.compiler.schedule.execution_primitives`
- blocks: `daedal.compiler.schedule.block_primitives`
- memory: `daedal.compiler.schedule.memory_primitives`
- reductions and instructions: `daedal.compiler.schedule.reduction_primitives`
- random choices: `daedal.compiler.schedule.sampling_primitives`
"""

from daedal.compiler.schedule.block_primitives import BlockPrimitives
from daedal.compiler.schedule.edit import find_loop, find_site
from daedal.compiler.schedule.execution_primitives import ExecutionPrimitives
from daedal.compiler.schedule.handles import BlockRef, LoopRef
from daedal.compiler.schedule.loop_primitives import LoopPrimitives
from daedal.compiler.schedule.memory_primitives import MemoryPrimitives
from daedal.compiler.schedule.recording import primitive
from daedal.compiler.schedule.reduction_primitives import ReductionPrimitives
from daedal.compiler.schedule.sampling_primitives import SamplingPrimitives
from daedal.compiler.tir.expr import Buffer
from daedal.compiler.tir.sites import collect

__all__ = ["Schedule"]


class Schedule(
    LoopPrimitives,
    ExecutionPrimitives,
    BlockPrimitives,
    MemoryPrimitives,
    ReductionPrimitives,
    SamplingPrimitives,
):
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
    trusted
        The calls come from a template of our own: the function is verified, and its buffers are
        allocated, once, when it is read, instead of after every primitive.
    """

    @primitive
    def get_block(self, name: str) -> BlockRef:
        """The block called `name`."""
        find_site(self.bare, name)
        return BlockRef(name)

    @primitive
    def get_loops(self, block: BlockRef) -> list[LoopRef]:
        """The loops around `block`, outermost first."""
        return [LoopRef(loop.var) for loop in find_site(self.bare, block.name).loops]

    @primitive
    def get_child_blocks(self, loop: LoopRef) -> list[BlockRef]:
        """The blocks under `loop`, in order."""
        sites, _ = collect(find_loop(self.bare, loop.var))
        return [BlockRef(site.block.name) for site in sites]

    @primitive
    def get_producers(self, block: BlockRef) -> list[BlockRef]:
        """The blocks that write what `block` reads, in order."""
        read = {region.buffer for region in find_site(self.bare, block.name).block.reads}
        return self._touching(block, read, written=True)

    @primitive
    def get_consumers(self, block: BlockRef) -> list[BlockRef]:
        """The blocks that read what `block` writes, in order."""
        written = {region.buffer for region in find_site(self.bare, block.name).block.writes}
        return self._touching(block, written, written=False)

    def _touching(self, block: BlockRef, buffers: set[Buffer], written: bool) -> list[BlockRef]:
        sites, _ = collect(self.bare.body)
        found = []
        for site in sites:
            regions = site.block.writes if written else site.block.reads
            if site.block.name != block.name and any(r.buffer in buffers for r in regions):
                found.append(BlockRef(site.block.name))
        return found
