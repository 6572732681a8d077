"""An elementwise operator fused with the convolution before it: its schedule and its cost.

The products of a tile are requantized within the accumulators. The stages of the operator follow
there. Its own requantization, or an operation on two accumulators, writes the result. Meanwhile
GEMM computes the next tile.
"""

from dataclasses import dataclass

from daedal.compiler.cost.machine import MachineCost
from daedal.compiler.graph.ops.fused import CONV_PREFIX
from daedal.compiler.graph.ops.looked_up import TABLE
from daedal.compiler.ops.accelerator.vector.elementwise_stages import (
    MAP_RANK,
    OWN_ROWS,
    has_input,
    has_parameters,
    load_table,
    params_reader,
    stages_of,
    tensorize_result,
    tensorize_stages,
)
from daedal.compiler.ops.accelerator.wide_results import narrow_vectors, stage_intrin
from daedal.compiler.schedule.edit import find_site
from daedal.compiler.schedule.handles import BlockRef, LoopRef
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.stmt import PrimFunc

__all__ = [
    "CONV",
    "CONV_TABLE",
    "NO_TAIL",
    "FusedTail",
    "cache_params",
    "load_params",
    "place_tail",
    "tensorize_tail",
]

CONV = "conv"
"""Name of the convolution's result, where that is not the function's."""

CONV_TABLE = CONV_PREFIX + TABLE
"""Operand that the convolution's result is looked up in, where that is not the function's."""


_OF_SKIPS = ("scaled_b", "wide_b")
"""Stages of another map that is added to the convolution's result, consumers first."""


@dataclass(frozen=True)
class FusedTail:
    """The operator's cost for each output vector; zero if there is no operator, but for `stored`.

    Parameters
    ----------
    requantizes : whether there is an operator that requantizes. Then vectors are requantized twice,
        the second time with the operator's own parameter row.
    operations : ALU operations between the two requantizations, or behind the only one.
    loads : vectors loaded from another map.
    loaded, stored : vectors of 8 bits that take as many bytes as those loaded, and as the result.
    rows : accumulator rows in addition to that of the product.
    """

    requantizes: int = 0
    operations: int = 0
    loads: int = 0
    rows: int = 0
    loaded: int = 0
    stored: int = 1

    @classmethod
    def of(cls, func: PrimFunc) -> "FusedTail":
        """From the function of a convolution, with or without a fused operator."""
        stages, stored = stages_of(func), narrow_vectors(func.outputs[0])
        if not stages:
            return cls(stored=stored)
        skips = [buf for buf in func.inputs if len(buf.shape) == MAP_RANK and buf.name == "skip"]
        # Maps of one pixel approximately stay on chip.
        moved = [skip for skip in skips if skip.shape == func.outputs[0].shape]
        own = sum(name in OWN_ROWS for name in stages)
        requantizes = any(buf.name == "params" for buf in func.inputs)
        operations = len(stages) - len(skips) - requantizes
        return cls(
            requantizes=int(requantizes),
            operations=operations,
            loads=len(moved),
            rows=len(skips) + own,
            loaded=sum(narrow_vectors(skip) for skip in moved),
            stored=stored,
        )

    @property
    def instructions(self) -> int:
        """Instructions per tile: one per operation, load, and second row of parameters."""
        return 2 * self.requantizes + self.operations + self.loads

    def vector_cycles(self, machine: MachineCost) -> int:
        """ALU cycles for a vector, including the convolution's requantization."""
        return machine.requantize * (1 + self.requantizes) + machine.operation * self.operations


NO_TAIL = FusedTail()
"""Nothing is fused behind the convolution."""


def place_tail(sch: Schedule, loop: LoopRef, parts: int = 1) -> BlockRef:
    """Compute a fused operator in the accumulators of a tile, under `loop`. Another map that it
    adds is loaded in `parts` of the tile's output blocks, each of which has rows of its own.

    Returns the block that requantizes the products; without a fused operator, that is ``y``.
    """
    stages = stages_of(sch.bare)
    if not stages:
        return sch.get_block("y")
    sch.compute_inline(sch.get_block(CONV))
    for name in stages:
        sch.set_scope(sch.get_block(name), 0, "acc")
        sch.compute_at(sch.get_block(name), loop)
    if parts > 1:
        total = sch.get_block("total" if "total" in stages else "y")
        part, _ = sch.split(sch.get_loops(total)[1 - MAP_RANK], [parts, None])
        for name in _OF_SKIPS:
            if name in stages:
                sch.compute_at(sch.get_block(name), part)
    return sch.get_block(_requantizing(stages))


def cache_params(sch: Schedule, y: BlockRef, requantized: BlockRef) -> list[BlockRef]:
    """Cache the parameters of `y` or of the stage that requantizes for it, if one does, and those
    of `place_tail`'s block if that is another one."""
    own = has_parameters(sch)
    params = [sch.cache_read(params_reader(sch), "params", "par")] if own else []
    if requantized != y:
        params.append(sch.cache_read(requantized, "conv_params", "par"))
    return params


def load_params(sch: Schedule, params: BlockRef) -> None:
    """Load a block made by `cache_params` with one LOAD."""
    (written,) = find_site(sch.bare, params.name).block.writes
    sch.tensorize(sch.get_loops(params)[-len(written.buffer.shape)], "load")


def tensorize_tail(sch: Schedule) -> None:
    """Tensorize the result, and the stages of the fused operator."""
    tensorize_result(sch)
    stages = stages_of(sch.bare)
    if stages:
        requantizing = _requantizing(stages)
        looked_up = has_input(sch, CONV_TABLE)
        if looked_up:
            load_table(sch, sch.get_block(requantizing), CONV_TABLE)
        intrin = "lookup_widen" if looked_up else stage_intrin(sch, requantizing)
        tensorize_stages(sch, {**stages, requantizing: intrin})


def _requantizing(stages: dict[str, str]) -> str:
    """The stage that requantizes the convolution's result."""
    return next(name for name in ("wide_a", "wide") if name in stages)
