"""Decoded steps of the ALU: which rows an operation may name, and what is in error."""

from typing import Any

import pytest
from amaranth.hdl import Const, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In

from daedal.hw.alu.alu_step import DecodedSteps, decode
from daedal.hw.alu.interlock import Interlock
from daedal.hw.issue.sequencer import step_layout
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import AluOp, Opcode, OutMemory
from daedal.isa.variant import Variant, load_variant
from tests.hw.compute_bench import simulate
from tests.hw.shared_designs import shared_design

TINY = load_variant("tiny")
FEW_ACC = TINY.replace(acc_bytes=4096)
FEW_OUT = TINY.replace(out_bytes=1024)
FEW_ROWS = 128
"""Of the smaller scratchpad; the other has twice as many."""
CONTROLS = ("operation", "use_immediate", "destination")


class Decoder(wiring.Component):
    """`decode` alone: a step in every cycle."""

    decoded: DecodedSteps

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        layout = step_layout(variant, Opcode.ALU, CONTROLS)
        super().__init__({"steps": In(stream.Signature(layout))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        row_bits = scratchpad(self._variant, Memory.ACC).index_bits
        m.submodules.interlock = interlock = Interlock(row_bits=row_bits, depth=2)
        self.decoded = decode(m, self._variant, self.steps, interlock, Const(1))
        return m


def flags_of(
    variant: Variant, *, dst: int = 0, skip: int = 0, out_of_range: int = 0, **control: int
) -> set[str]:
    """The flags among `work`, `illegal` and `beyond` that are set for a step."""
    found = set[str]()
    top, simulator = shared_design(Decoder, variant=variant)

    async def drive(ctx: Any) -> None:
        step = {"skip": skip, "out_of_range": out_of_range, "index": {"dst": dst}}
        ctx.set(top.steps.payload, {**step, "control": control})
        ctx.set(top.steps.valid, 1)
        await ctx.tick().repeat(2)
        assert ctx.get(top.decoded.some)
        for name in ("work", "illegal", "beyond"):
            if ctx.get(getattr(top.decoded.step, name)):
                found.add(name)

    simulate(simulator, drive)
    return found


def test_the_smaller_scratchpads() -> None:
    for memory, variant, other in ((Memory.ACC, FEW_ACC, FEW_OUT), (Memory.OUT, FEW_OUT, FEW_ACC)):
        assert scratchpad(variant, memory).depth_rows == FEW_ROWS
        assert scratchpad(other, memory).depth_rows == 2 * FEW_ROWS


@pytest.mark.parametrize(
    ("variant", "destination", "other"),
    [(FEW_ACC, OutMemory.ACC, OutMemory.OUT), (FEW_OUT, OutMemory.OUT, OutMemory.ACC)],
    ids=["acc", "out"],
)
def test_a_result_is_a_row_of_its_scratchpad(
    variant: Variant, destination: OutMemory, other: OutMemory
) -> None:
    step = {"operation": AluOp.ADD, "use_immediate": 1}
    last, beyond = FEW_ROWS - 1, FEW_ROWS
    assert flags_of(variant, dst=last, destination=destination, **step) == {"work"}
    assert flags_of(variant, dst=beyond, destination=destination, **step) == {"beyond"}
    assert flags_of(variant, dst=beyond, destination=destination, skip=1, **step) == set()
    assert flags_of(variant, dst=beyond, destination=other, **step) == {"work"}


def test_the_second_operand_is_a_row_of_the_accumulators() -> None:
    """Row `dst`, wherever the result goes; forms with an immediate have none."""
    step = {"operation": AluOp.ADD, "destination": OutMemory.OUT}
    assert flags_of(FEW_ACC, dst=FEW_ROWS - 1, **step) == {"work"}
    assert flags_of(FEW_ACC, dst=FEW_ROWS, **step) == {"beyond"}
    assert flags_of(FEW_ACC, dst=FEW_ROWS, use_immediate=1, **step) == {"work"}


def test_what_the_sequencer_found_out_of_range_is_an_error() -> None:
    """Also without a step to do: the micro-ops themselves may not be there."""
    assert flags_of(FEW_ACC, out_of_range=1) == {"beyond"}
    assert flags_of(FEW_ACC, out_of_range=1, skip=1) == {"beyond"}


def test_operations_that_the_variant_lacks_are_illegal() -> None:
    assert flags_of(FEW_ACC, operation=AluOp.LOOKUP) == {"illegal"}
    assert flags_of(FEW_ACC, operation=AluOp.LOOKUP, skip=1) == set()
