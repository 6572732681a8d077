"""Marks: a unit's counters, written to a ring in memory when a marked instruction retires.

Input: retirements and counters. Output: write requests and bus words for the write master.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import at_most_one, contract
from daedal.hw.control.counters import COUNTS, counts_layout
from daedal.hw.family import Platform
from daedal.hw.interfaces import error_signature, read_request, write_response
from daedal.hw.issue.token_count import TokenCount
from daedal.hw.issue.tokens import QUEUED_UNITS, retire_signature
from daedal.hw.layouts import INDEX_BITS, word_address_bits
from daedal.hw.parts.select import select_one
from daedal.hw.parts.small_fifo import SmallFifo
from daedal.isa.latencies import MARKS_IN_FLIGHT, MARKS_PER_UNIT
from daedal.isa.registers import MARK_BYTES, ErrorCode
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["MarkRecorder"]


def _snapshot_layout() -> data.StructLayout:
    """Fields of a record, in the order of `isa.registers.MARK_FIELDS`."""
    return data.StructLayout(
        {"tag": 16, "index": INDEX_BITS, "cycle": 64, "counts": counts_layout()}
    )


class MarkRecorder(wiring.Component):
    """Takes a snapshot at every marked retirement and writes it to the ring.

    Retirement never stalls: record buffers are credits, and a gate issues a marked instruction only
    when its unit has one, which it takes like a token. A retirement is registered first. Records of
    one unit stay in order; the ring holds `capacity` records and wraps, overwriting the oldest.

    Members
    -------
    enabled : `capacity` is not 0; without it nothing is recorded.
    retire[u], counts[u], cycle : what is recorded.
    available[u], plenty[u], coming[u], taken[u] : credits, see `gate.IssueGate`.
    base_address : bus word address of the ring. capacity : its records.
    restart : pulse at the start of a run: begin at the ring's first record.
    request, data, response : writer of the write master.
    idle : no record waits or is in flight. written : records acknowledged since `restart`.
    error, error_unit : a record's write failed; names the marked instruction.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._beats = MARK_BYTES // variant.bus_bytes
        self._width = variant.bus.data_bits
        address_bits = word_address_bits(variant)
        units = len(QUEUED_UNITS)
        members = {
            "enabled": Out(1),
            "retire": In(retire_signature()).array(units),
            "counts": In(counts_layout()).array(units),
            "available": Out(1).array(units),
            "plenty": Out(1).array(units),
            "coming": Out(1).array(units),
            "taken": In(1).array(units),
            "cycle": In(64),
            "base_address": In(address_bits),
            "capacity": In(32),
            "restart": In(1),
            "request": Out(read_request(variant)),
            "data": Out(stream.Signature(variant.bus.data_bits)),
            "response": In(write_response()),
            "idle": Out(1),
            "written": Out(32),
            "error": Out(error_signature()),
            "error_unit": Out(3),
        }
        super().__init__(members)

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        m.d.sync += self.enabled.eq(self.capacity.any())
        heard = Signal(len(QUEUED_UNITS))  # a marked instruction retired in the previous cycle
        queues = [self._collect(m, unit, heard[unit]) for unit in QUEUED_UNITS]
        m.submodules.in_flight = in_flight = SmallFifo(width=2 + INDEX_BITS, depth=MARKS_IN_FLIGHT)
        self._send(m, platform, queues, in_flight)
        self._acknowledge(m, platform, in_flight)
        waiting = Cat(heard, (queue.r_rdy for queue in queues), in_flight.r_rdy)
        m.d.comb += self.idle.eq(~waiting.any())
        return m

    def _collect(self, m: Module, unit: Unit, heard: Value) -> SmallFifo:
        retire = self.retire[unit]
        tag, index = Signal(16, reset_less=True), Signal(INDEX_BITS, reset_less=True)
        m.d.sync += [
            heard.eq(retire.valid & retire.payload.mark & self.enabled),
            tag.eq(retire.payload.tag),
            index.eq(retire.payload.index),
        ]
        layout = _snapshot_layout()
        # The gate issues no marked instruction without a credit.
        queue = SmallFifo(width=layout.size, depth=MARKS_PER_UNIT, trusts=True)
        m.submodules[f"queue{unit:d}"] = queue
        snapshot = Signal(layout, name=f"snapshot{unit:d}")
        m.d.comb += [
            snapshot.tag.eq(tag),
            snapshot.index.eq(index),
            snapshot.cycle.eq(self.cycle),
            snapshot.counts.eq(self.counts[unit]),
            queue.w_data.eq(snapshot),
            queue.w_en.eq(heard),
        ]
        # A credit is taken when the gate issues the instruction, long before its record arrives.
        most = (1 << MARKS_PER_UNIT.bit_length()) - 1
        m.submodules[f"places{unit:d}"] = places = TokenCount(most=most, init=MARKS_PER_UNIT)
        m.d.comb += [
            places.give.eq(queue.r_en & queue.r_rdy),
            places.take.eq(self.taken[unit]),
            self.available[unit].eq(places.some),
            self.plenty[unit].eq(places.many),
            self.coming[unit].eq(places.give),
        ]
        return queue

    def _send(
        self, m: Module, platform: Platform, queues: list[SmallFifo], in_flight: SmallFifo
    ) -> None:
        """Choose a record, request its burst and send its words before choosing the next one."""
        unit, chosen = Signal(2), Signal(len(queues))  # `chosen` has a bit per unit
        slot, last_slot, capacity_less_one = Signal(32), Signal(), Signal(32)
        address = Signal.like(self.request.p.address)
        choosing, choose = Signal(init=1), Signal()
        asking, asked, over = Signal(), Signal(), Signal()
        records = [data.View(_snapshot_layout(), queue.r_data) for queue in queues]
        m.d.comb += [
            choose.eq(choosing & Cat(queue.r_rdy for queue in queues).any()),
            self.request.p.address.eq(address),
            self.request.p.beats.eq(self._beats),
            self.request.valid.eq(asking & in_flight.w_rdy),
            asked.eq(self.request.valid & self.request.ready),
            in_flight.w_en.eq(asked),
            in_flight.w_data.eq(Cat(unit, select_one(chosen, [r.index for r in records]))),
            Cat(queue.r_en for queue in queues).eq(Mux(over, chosen, 0)),
        ]
        m.d.sync += [
            capacity_less_one.eq(self.capacity - 1),
            last_slot.eq(slot == capacity_less_one),
            over.eq(self._give(m, platform, records, choose, chosen)),
        ]
        with m.If(asked):
            m.d.sync += [asking.eq(0), slot.eq(slot + 1), address.eq(address + self._beats)]
            with m.If(last_slot):
                m.d.sync += [slot.eq(0), address.eq(self.base_address)]
        with m.If(self.restart):
            m.d.sync += [slot.eq(0), address.eq(self.base_address)]
        with m.If(choose):
            m.d.sync += [choosing.eq(0), asking.eq(1)]
            for number, queue in reversed(list(enumerate(queues))):
                with m.If(queue.r_rdy):
                    m.d.sync += [unit.eq(number), chosen.eq(1 << number)]
        with m.If(over):
            m.d.sync += choosing.eq(1)
        there = (chosen & Cat(queue.r_rdy for queue in queues)).any()
        contract(m, platform, at_most_one(chosen), "one record must be sent at a time")
        contract(m, platform, ~over | there, "only a record that is there must leave")

    def _give(
        self,
        m: Module,
        platform: Platform,
        records: list[data.View],
        choose: Signal,
        chosen: Signal,
    ) -> Value:
        """Send the words of the chosen record; return whether the last one is accepted.

        The mux has two registered stages: the same beat of every unit's record, then the chosen
        unit's. The words are ready long before the bus asks for them.
        """
        m.submodules.words = words = SmallFifo(width=self._width, depth=max(2, self._beats))
        last = self._beats - 1
        ahead, fills = Signal(range(max(2, self._beats))), Signal()
        given, final = Signal(range(max(2, self._beats))), Signal(init=int(last == 0))
        beats = [Signal(self._width, name=f"beat{n}", reset_less=True) for n in range(len(records))]
        chosen_beat = Signal(self._width, reset_less=True)
        m.d.sync += [
            beat.eq(_words(record, number).word_select(ahead, self._width))
            for number, (record, beat) in enumerate(zip(records, beats, strict=True))
        ]
        m.d.sync += [chosen_beat.eq(select_one(chosen, beats)), words.w_en.eq(fills)]
        m.d.comb += words.w_data.eq(chosen_beat)
        contract(m, platform, ~words.w_en | words.w_rdy, "a word must find a place before the bus")
        # `ahead` wraps to 0 when the last beat has been read.
        with m.If(choose | (fills & (ahead != 0))):
            m.d.sync += ahead.eq(Mux(ahead == last, 0, ahead + 1))
        with m.If(choose):
            m.d.sync += fills.eq(1)
        with m.Elif(ahead == 0):
            m.d.sync += fills.eq(0)
        m.d.comb += [self.data.p.eq(words.r_data), self.data.valid.eq(words.r_rdy)]
        leaves = self.data.valid & self.data.ready
        m.d.comb += words.r_en.eq(self.data.ready)
        with m.If(leaves):
            m.d.sync += [
                given.eq(Mux(final, 0, given + 1)),
                final.eq((given == last - 1) | (last == 0)),
            ]
        return leaves & final

    def _acknowledge(self, m: Module, platform: Platform, in_flight: SmallFifo) -> None:
        failed = self.response.response[1]
        sent = ~self.response.valid | in_flight.r_rdy
        contract(m, platform, sent, "only a record that was sent must be acknowledged")
        m.d.comb += [
            in_flight.r_en.eq(self.response.valid),
            self.error.valid.eq(self.response.valid & failed),
            self.error.code.eq(
                Mux(self.response.response[0], ErrorCode.WRITE_DECERR, ErrorCode.WRITE_SLVERR)
            ),
            Cat(self.error_unit, self.error.index).eq(
                Cat(in_flight.r_data[:2], Const(0, 1), in_flight.r_data[2:])
            ),
        ]
        # Software reads this count after the run, when the rest of the machine has been cleared.
        written = Signal(32, reset_less=True)
        m.d.comb += self.written.eq(written)
        with m.If(self.restart):
            m.d.sync += written.eq(0)
        with m.Elif(self.response.valid & ~failed):
            m.d.sync += written.eq(written + 1)


def _words(record: data.View, unit: int) -> Value:
    """A record in its memory layout."""
    words = [
        Cat(record.tag, Const(unit, 2)),
        record.index,
        record.cycle[:32],
        record.cycle[32:],
        *(record.counts[number] for number in range(COUNTS)),
    ]
    return Cat(*(Cat(word, Const(0, 32))[:32] for word in words)) | Const(0, 8 * MARK_BYTES)
