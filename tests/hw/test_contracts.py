"""Contracts as assertions: each can fail, says its rule, and is nowhere in shipped Verilog."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Fragment, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator

from daedal.hw.alu.interlock import Interlock
from daedal.hw.bus import burst
from daedal.hw.bus.burst import BurstSplitter
from daedal.hw.bus.read_master import ReadMaster
from daedal.hw.bus.strided import StridedRequests
from daedal.hw.contracts import stays_until_ready
from daedal.hw.emit import emit_component
from daedal.hw.family import GatheredContracts
from daedal.hw.issue import token_count, tokens
from daedal.hw.issue.token_count import TokenCount
from daedal.hw.load.fill_buffer import FillBuffer
from daedal.hw.machine import Machine
from daedal.hw.memory.accumulators import Accumulators
from daedal.hw.memory.scratchpad import Scratchpad
from daedal.hw.parts import skid, small_fifo, tally
from daedal.hw.parts.holder import Holder
from daedal.hw.parts.skid import SkidBuffer
from daedal.hw.parts.small_fifo import SmallFifo
from daedal.hw.parts.tally import Tally
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory, Unit
from daedal.isa.variant import load_variant
from tests.hw.formal.broken import broken_copy

TINY = load_variant("tiny")

Cycle = dict[str, Any]
"""Values of ports by their names, from a cycle on; dots lead into bundles and arrays."""


def simulated(dut: Any, cycles: list[Cycle]) -> None:
    """Give `dut` these values, one cycle each."""

    async def drive(ctx: Any) -> None:
        for values in cycles:
            for path, value in values.items():
                port = dut
                for name in path.split("."):
                    port = port[int(name)] if name.isdigit() else getattr(port, name)
                ctx.set(port, value)
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()


BROKEN: dict[str, tuple[Callable[[], Any], list[Cycle], str]] = {
    "counts beyond": (
        lambda: Tally(most=1),
        [{"up": 1}, {"up": 1}],
        "a full tally must not count up",
    ),
    "counts below": (
        lambda: Tally(most=2),
        [{"down": 1}],
        "a tally of none must not count down",
    ),
    "writes a full FIFO": (
        lambda: SmallFifo(width=1, depth=1, trusts=True),
        [{"w_en": 1}, {"r_en": 1}],
        "a full FIFO must not be written",
    ),
    "takes no token": (
        lambda: TokenCount(most=3),
        [{"take": 1}],
        "a token that is not there must not be taken",
    ),
    "keeps nothing": (lambda: Holder(), [{"waits": 1}], "without an instruction none must stay"),
    "asks for nothing": (
        lambda: BurstSplitter(variant=TINY),
        [{"i.valid": 1}],
        "a request of 0 beats must never be given",
    ),
    "moves nothing": (
        lambda: StridedRequests(variant=TINY),
        [{"i.valid": 1, "i.payload.beats": 1, "i.payload.rows": 1}],
        "an empty transfer must never be given",
    ),
    "wrong flags": (
        lambda: StridedRequests(variant=TINY),
        [{f"i.payload.{name}": 1 for name in ("beats", "rows", "blocks")} | {"i.valid": 1}],
        "flags must say what the counts do",
    ),
    "ends twice": (
        lambda: FillBuffer(variant=TINY),
        [{"over": 1, "move.valid": 1, "fill.ready": 1}, {}],
        "no instruction must end while another one does",
    ),
    "starts where it must not": (
        lambda: Interlock(row_bits=2, depth=4),
        [
            {"writes": 1, "dst": 1, "next": 1},
            {"writes": 0, "reads_src": 1, "src": 1},
            {"enter": 1},
            {},
        ],
        "no group must start where it must not",
    ),
    "fills a full ring": (
        lambda: Interlock(row_bits=2, depth=2),
        [{"enter": 1}, {}, {}],
        "a full ring must take no group",
    ),
    "leaves an empty ring": (
        lambda: Interlock(row_bits=2, depth=2),
        [{"leave": 1}],
        "only a group inside must leave",
    ),
    "a word and a pad": (
        lambda: Scratchpad(variant=TINY, memory=Memory.INP),
        [{"fill.valid": 1, "fill.payload.memory": LoadMemory.INP, "pads.enable": 1}, {}],
        "a pad must not go where a word goes in the same cycle",
    ),
    "a row that is not there": (
        lambda: Scratchpad(variant=TINY, memory=Memory.WGT),
        [
            {
                "fill.valid": 1,
                "fill.payload.memory": LoadMemory.WGT,
                "fill.payload.row": scratchpad(TINY, Memory.WGT).depth_rows,
            },
            {},
        ],
        "LOAD must not fill a row that is not there",
    ),
    "two reads of a bank": (
        lambda: Accumulators(variant=TINY),
        [{"alu_read.valid": 1, "alu_read2.valid": 1, "alu_wants": 3}],
        "a bank of the accumulators must be read for one unit in a cycle",
    ),
    "a closed bank": (
        lambda: Accumulators(variant=TINY),
        [{"gemm_read.enable": 1}, {"alu_read.valid": 1, "alu_wants": 1}],
        "the ALU must not use a closed bank",
    ),
    "a read that nobody wants": (
        lambda: Accumulators(variant=TINY),
        [{"alu_read.valid": 1}],
        "the ALU must read only what it wants",
    ),
    "an answer to nothing": (
        lambda: ReadMaster(variant=TINY),
        [{"r.valid": 1, "r.payload.last": 1}, {}],
        "a tally of none must not count down",
    ),
}


@pytest.mark.parametrize(("make", "cycles", "rule"), BROKEN.values(), ids=BROKEN)
def test_a_broken_contract_says_its_rule(
    make: Callable[[], Any], cycles: list[Cycle], rule: str
) -> None:
    simulated(make(), [{}, {}])
    with pytest.raises(AssertionError, match=f"^Assertion violated: {rule}$"):
        simulated(make(), cycles)


class Sender(wiring.Component):
    """A stream that somebody else drives."""

    o: Out(stream.Signature(4))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        stays_until_ready(m, platform, self.o, "the sender")
        return m


def test_streams_keep_what_they_offer() -> None:
    offered = {"o.valid": 1, "o.payload": 5}
    simulated(Sender(), [offered, {}, {"o.ready": 1}, {"o.payload": 6}, {"o.valid": 0}])
    for change in ({"o.valid": 0}, {"o.payload": 6}):
        with pytest.raises(AssertionError, match="the sender must keep valid and payload"):
            simulated(Sender(), [offered, change])


def test_an_overflow_that_nobody_reports(tmp_path: Path) -> None:
    """The contract looks at the counters, not at what the report is made from."""
    right = "return count.give & ~count.take & count.full"
    copy = broken_copy(tokens, right, f"{right} & 0", tmp_path)
    retire = f"retire.{Unit.LOAD:d}"
    give = {f"{retire}.valid": 1, f"{retire}.payload.push": 1 << Unit.GEMM}
    most = (1 << TINY.units.token_bits) - 1
    cycles = [give, *[{}] * most, {f"{retire}.valid": 0}, {}, {}]
    simulated(tokens.TokenFile(variant=TINY), cycles)
    with pytest.raises(AssertionError, match="a counter that overflows must be reported"):
        simulated(copy.TokenFile(variant=TINY), cycles)


def test_shipped_text_is_as_without_contracts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of blocks with contracts of every kind: registers for them, flags for them, rules."""

    def texts() -> list[str]:
        blocks = (SkidBuffer(8), tokens.TokenFile(variant=TINY), BurstSplitter(variant=TINY))
        return [emit_component(block, "top", "a block") for block in blocks]

    shipped = texts()
    for module in (skid, tally, small_fifo, token_count, tokens, burst):
        monkeypatch.setattr(module, "contract", lambda *_arguments: None, raising=False)
        monkeypatch.setattr(module, "checks_contracts", lambda _platform: False, raising=False)
    assert texts() == shipped


def test_a_machine_watches_every_scratchpad_for_missing_tokens() -> None:
    gathered = GatheredContracts()
    Fragment.get(Machine(variant=TINY.replace(tables=1)), gathered)
    rules = [rule for rule, _ in gathered.found]
    for name in ("INP", "WGT", "PAR", "TAB", "OUT", "ACC"):
        rule = f"a row of {name} must not be read while it is written: a token is missing"
        assert rules.count(rule) == 1
