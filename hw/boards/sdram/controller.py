"""An AXI4 slave for SDR SDRAM, with a second port for the host: takes the place of `MemorySlave`.

Input: the five channels of the machine's master, the host's accesses. Output: the chip's pins.

The rules. A handshake happens *in cycle t* when valid and ready are both high at the clock edge
that ends cycle t. Cycles count from the end of reset; the odd ones are *decision cycles*, and each
decides about one slot. All that a decision looks at is the state before it. `SlotTimes` has the
distances.

1. A read burst *waits* from cycle t + 3 on, where t is the cycle of its AR handshake. A write burst
   waits from the later of t + 3 and u + 2 on, with t of its AW and u of its last W. Each direction
   waits in order, whatever the IDs.
2. ARREADY (AWREADY, WREADY) is high while 16 bursts (16, 512 words) or fewer are kept. A read does
   not wait while more than 256 words of R are promised or kept, a write not while 16 are without
   their B. None of this happens to a master with at most 16 bursts of 32 words open in a direction
   whose RREADY and BREADY are always high, as this machine's are.
3. The splitter takes a burst in any cycle in which it has none, or (a decision cycle) in which its
   last segment is accepted. The host's access goes first. Of reads and writes, those with the turn
   go, or the others if none of those waits. A direction that was taken has the turn, until it was
   taken `TURN_BURSTS` times in a row; then the other has it. Reads have the first turn.
4. A burst is split at the ends of rows. Its first segment is offered two cycles after the burst was
   taken, each other one two cycles after the one before was accepted.
5. The engine has a *current* segment, whose words move, and a *next* one. In a decision cycle, it
   accepts what is offered if it has no next segment, or if that becomes the current one.
6. A decision lets one word of the current segment move, and ends it with its last word.
7. The next segment becomes the current one if there is none, or its last word moves; if its row is
   open, or it lies beyond the memory; if `wait` is 0; if no refresh is due; and unless it is a
   write and a word of a read moves in this decision.
8. Otherwise, if `wait` is 0, no refresh is due, and the current segment is in another bank or there
   is none: a bank without an open row gets ACTIVE (`wait` becomes `row_to_data` - 2, `held` becomes
   `row_to_precharge` - 1), one with another row open gets PRECHARGE if `held` is 0 (`wait` becomes
   `precharge_to_row` - 1). In each other decision, `wait` and `held` fall by 1 down to 0.
9. A refresh falls due every `refresh_interval` decisions. While one is due, and once no segment is
   current and `wait` and `held` are 0, all banks get PRECHARGE, open or not (`wait` becomes
   `precharge_to_row` - 1); then, when `wait` is 0, the chip gets REFRESH (`wait` becomes
   `refresh_to_any` - 1), and the refresh is no longer due.
10. From reset on a refresh is due, but nothing is sent for `power_up` decisions, from which on
    refreshes fall due. Rule 9 is repeated `init_refreshes` times, and once more with MODE
    in place of REFRESH (`wait` becomes `mode_to_any` - 1).
11. A word of a read that a decision in cycle d moves is offered on R in cycle d + 6 +
    `sdram_slots.read_cycles` (d + 12 with CAS latency 3) at the earliest. B is offered in cycle
    d + 2, with d of the burst's last word. Both come in the order in which the words move.

`tests/sim/rtl/sdram_reference.py` is these rules in Python, and equals the RTL in every cycle.
"""

from typing import Any

from amaranth.hdl import Module, Mux, ResetInserter, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out, connect, flipped

from daedal.hw.boards.memory_port import memory_port
from daedal.hw.boards.sdram.arbiter import BurstArbiter
from daedal.hw.boards.sdram.engine import SlotEngine
from daedal.hw.boards.sdram.frontend import AxiFrontend
from daedal.hw.boards.sdram.layouts import request_layout, sdram_pins, word_layout
from daedal.hw.boards.sdram.pins import SdramPhy
from daedal.hw.boards.sdram.splitter import RowSplitter
from daedal.hw.contracts import contract
from daedal.hw.family import Platform
from daedal.hw.pipeline import register
from daedal.isa.sdram_slots import CAPTURE_CLOCKS, SlotTimes, read_cycles
from daedal.isa.variant import Variant

__all__ = ["SdramController"]

_OKAY, _DECERR = 0b00, 0b11


class SdramController(wiring.Component):
    """The whole chip from byte address 0 on; bursts beyond it get DECERR.

    `memory_port` says what it does, the module docstring in which cycle.

    Parameters
    ----------
    variant
        Bus widths; a bus word must be four columns of the chip.
    times
        The chip and its times in slots, at twice the bus clock.
    capture_clocks
        `pins.SdramPhy`; depends on the board's clocks.

    Members
    -------
    ar, r, aw, w, b, host, machine_reset : `memory_port.memory_port`.
    sdram : ``Out(sdram_pins(chip))``

    Raises
    ------
    UserError
        The bus has another width.
    """

    def __init__(
        self, *, variant: Variant, times: SlotTimes, capture_clocks: int = CAPTURE_CLOCKS
    ) -> None:
        chip = times.chip
        chip.check_bus(variant)
        self._variant = variant
        self._times = times
        self._capture_clocks = capture_clocks
        port = memory_port(variant, self.num_words)
        super().__init__(port | {"sdram": Out(sdram_pins(chip))})

    @property
    def num_words(self) -> int:
        """Bus words of the chip."""
        return self._times.chip.size_bytes // self._variant.bus_bytes

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        chip = self._times.chip
        drop = register(m, self.machine_reset, name="drop", reset_less=False)
        front = AxiFrontend(chip=chip, variant=self._variant)
        m.submodules.front = ResetInserter(drop)(front)
        m.submodules.arbiter = arbiter = ResetInserter(drop)(BurstArbiter(chip=chip))
        m.submodules.splitter = splitter = RowSplitter(chip=chip)
        m.submodules.engine = engine = SlotEngine(times=self._times)
        m.submodules.phy = phy = SdramPhy(chip=chip, capture_clocks=self._capture_clocks)
        for name in ("ar", "aw", "w"):
            connect(m, flipped(getattr(self, name)), getattr(front, name))
        for name in ("r", "b"):
            connect(m, getattr(front, name), flipped(getattr(self, name)))
        connect(m, front.read, arbiter.read)
        connect(m, front.write, arbiter.write)
        connect(m, arbiter.burst, splitter.request)
        connect(m, splitter.segment, engine.segment)
        connect(m, phy.sdram, flipped(self.sdram))
        m.d.comb += [
            splitter.drop.eq(drop),
            engine.drop.eq(drop),
            phy.decides.eq(engine.decides),
            phy.command.eq(engine.command),
        ]
        host = _HostPort(m, self.host, request_layout(chip), arbiter.host, engine.word)
        self._writes(m, platform, front, engine, phy, host)
        self._reads(m, front, engine, phy, drop)
        return m

    def _writes(
        self, m: Module, platform: Platform, front: Any, engine: Any, phy: Any, host: "_HostPort"
    ) -> None:
        """The word that a slot writes, and the answer after the last one."""
        word, given = engine.word, front.write_word
        taken = word.valid & word.write & ~word.host
        m.d.comb += [
            given.ready.eq(taken),
            front.write_done.valid.eq(taken & word.last),
            front.write_done.payload.id.eq(word.id),
            front.write_done.payload.resp.eq(Mux(word.beyond, _DECERR, _OKAY)),
        ]
        contract(m, platform, ~taken | given.valid, "a word of a served write must have come")
        written, strobes = Signal.like(phy.write_word), Signal.like(phy.write_strobes)
        m.d.comb += [phy.write_word.eq(written), phy.write_strobes.eq(strobes)]
        with m.If(engine.decides):
            m.d.sync += [
                written.eq(Mux(word.host, host.data, given.payload.data)),
                strobes.eq(Mux(word.host, host.strobes, given.payload.strb)),
            ]

    def _reads(self, m: Module, front: Any, engine: Any, phy: Any, drop: Signal) -> None:
        """What is known of a word, beside it on its way through the chip."""
        tag = Signal(word_layout(), name="tag")
        m.d.comb += [tag.eq(engine.word), tag.valid.eq(engine.word.valid & ~engine.word.write)]
        for stage in range(1 + read_cycles(self._times.chip, self._capture_clocks)):
            later = Signal(word_layout(), name=f"tag{stage}")
            m.d.sync += [later.eq(tag), later.valid.eq(tag.valid & (~drop | tag.host))]
            tag = later
        done = front.read_done
        m.d.comb += [
            done.valid.eq(tag.valid & ~tag.host),
            done.payload.id.eq(tag.id),
            done.payload.last.eq(tag.last),
            done.payload.data.eq(phy.read_word),
            done.payload.resp.eq(Mux(tag.beyond, _DECERR, _OKAY)),
        ]
        m.d.sync += self.host.word_valid.eq(tag.valid & tag.host)
        with m.If(tag.host):
            m.d.sync += self.host.word.eq(phy.read_word)


class _HostPort:
    """An access of the host, kept from its pulse until its word has moved; one at a time."""

    def __init__(
        self, m: Module, host: Any, layout: data.StructLayout, burst: Any, word: Any
    ) -> None:
        waits, is_open = Signal(name="host_waits"), Signal(name="host_is_open")
        address = Signal.like(host.address, name="host_address", reset_less=True)
        self.data = Signal.like(host.data, name="host_data", reset_less=True)
        self.strobes = Signal.like(host.strobes, name="host_strobes", reset_less=True)
        entry = burst.payload
        names = ("column", "bank", "row")
        place = data.View(data.StructLayout({n: len(entry[n]) for n in names}), address)
        m.d.comb += [
            host.ready.eq(~is_open),
            burst.valid.eq(waits),
            entry.host.eq(1),
            entry.write.eq(self.strobes.any()),
            *(entry[name].eq(place[name]) for name in names),
        ]
        with m.If(host.valid & ~is_open):
            m.d.sync += [
                waits.eq(1),
                is_open.eq(1),
                address.eq(host.address),
                self.data.eq(host.data),
                self.strobes.eq(host.strobes),
            ]
        with m.If(burst.valid & burst.ready):
            m.d.sync += waits.eq(0)
        with m.If(word.valid & word.host):
            m.d.sync += is_open.eq(0)
