"""STORE: scratchpad rows to strided tiles in memory.

Input: STORE instructions. Output: requests and words to the write master. Three parts run
concurrently, each on its own instruction: requests run ahead, rows are read and cut into words
(`RowReader`), and the oldest instruction waits for its write responses.
"""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from daedal.hw.bus.strided import StridedRequests, TransferHead
from daedal.hw.family import Platform
from daedal.hw.interfaces import (
    Activity,
    read_request,
    scratchpad_read_signature,
    unit_signature,
    write_response,
)
from daedal.hw.layouts import retire_layout, row_bits, word_address_bits
from daedal.hw.parts.holder import Holder
from daedal.hw.parts.queue import Queue
from daedal.hw.store.acknowledgements import Acknowledgements
from daedal.hw.store.row_reader import RowReader, store_job_layout
from daedal.isa.latencies import STORE_AHEAD
from daedal.isa.registers import ErrorCode
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import BASES, Opcode, OutMemory
from daedal.isa.transfer import memory_beats
from daedal.isa.variant import Variant

__all__ = ["Store"]


class Store(wiring.Component):
    """The STORE unit.

    Throughput: one bus word per cycle, without a gap between rows or instructions; one instruction
    is accepted every two cycles at most. Instructions retire in order, each when the bus has
    acknowledged all its writes.

    A row past the end of the scratchpad is ROW_RANGE (it is not read), a row of memory that is not
    inside its region MEMORY_RANGE (it is not asked for), a bad BRESP WRITE_SLVERR or WRITE_DECERR,
    reported when all writes of the instruction are acknowledged; after an error the unit halts
    until it is reset.

    Parameters
    ----------
    variant
        The machine.

    Members
    -------
    issue, retire, activity, work, error : see `interfaces.unit_signature`; work is bus words.
    base_address : ``In(data.ArrayLayout(word_address_bits(variant), 4))``
        Base registers, as addresses of bus words.
    region_words : ``In(data.ArrayLayout(word_address_bits(variant), 4))``
        Bus words of the regions behind them.
    out_read : ``Out(scratchpad_read_signature(...))``
        Read port of the OUT scratchpad.
    acc_read, acc_data : ``Out(stream of row numbers)``, ``In(valid, data)``
        To `store_read` and `store_data` of the accumulators.
    request, data, response
        To writer 0 of the write master.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        acc, out = scratchpad(variant, Memory.ACC), scratchpad(variant, Memory.OUT)
        super().__init__(
            {
                **unit_signature(variant, Opcode.STORE),
                "base_address": In(data.ArrayLayout(word_address_bits(variant), len(BASES))),
                "region_words": In(data.ArrayLayout(word_address_bits(variant), len(BASES))),
                "out_read": Out(scratchpad_read_signature(out.index_bits, out.row_bits)),
                "acc_read": Out(stream.Signature(row_bits(variant, Memory.ACC))),
                "acc_data": In(wiring.Signature({"valid": Out(1), "data": Out(acc.row_bits)})),
                "request": Out(read_request(variant)),
                "data": Out(stream.Signature(variant.bus.data_bits)),
                "response": In(write_response()),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        variant = self._variant
        m.submodules.requests = requests = StridedRequests(variant=variant)
        m.submodules.jobs = jobs = Queue(store_job_layout(variant), depth=STORE_AHEAD)
        m.submodules.reader = reader = RowReader(variant=variant)
        waiting_layout = data.StructLayout({"retire": retire_layout(), "empty": 1})
        m.submodules.acknowledged = acknowledged = Acknowledgements(variant=variant)
        m.submodules.waiting = waiting = Queue(waiting_layout, depth=variant.bus.write_bursts)

        held = self._take(m, jobs.i, requests.i, waiting.i)

        connect(m, jobs.o, reader.job)
        connect(m, reader.out_read, flipped(self.out_read))
        connect(m, reader.acc_read, flipped(self.acc_read))
        connect(m, flipped(self.acc_data), reader.acc_data)
        connect(m, reader.data, flipped(self.data))
        connect(m, requests.o, acknowledged.i)
        connect(m, acknowledged.request, flipped(self.request))
        connect(m, flipped(self.response), acknowledged.response)
        self._retire(m, waiting.o, acknowledged, reader, requests)

        m.d.comb += self.work.eq(reader.work)
        with m.If(self.work):
            m.d.comb += self.activity.eq(Activity.BUSY)
        with m.Elif(held | ~jobs.empty | reader.active):
            m.d.comb += self.activity.eq(Activity.STALL)
        with m.Elif(~waiting.empty | self.retire.valid):
            m.d.comb += self.activity.eq(Activity.DRAIN)
        return m

    def _take(
        self, m: Module, jobs: stream.Interface, requests: stream.Interface, slots: stream.Interface
    ) -> Value:
        """Pass the current instruction to its slot, then to the row reader and to its requests.

        Each of them accepts it independently. Returns whether there is a current instruction.
        """
        variant = self._variant
        head = Signal.like(self.issue.payload, reset_less=True)
        fields = head.instruction
        transfer = TransferHead(variant)
        empty = Signal(reset_less=True)
        beyond = Signal(reset_less=True)
        slot_due, job_due, request_due = Signal(), Signal(), Signal()
        incoming = self.issue.payload.instruction
        some = (incoming.blocks != 0) & (incoming.rows != 0) & (incoming.cols != 0)
        m.submodules.holder = holder = Holder()
        m.d.comb += [
            self.issue.ready.eq(holder.ready),
            holder.valid.eq(self.issue.valid),
            holder.waits.eq(
                (slot_due & ~slots.ready)
                | (job_due & ~jobs.ready)
                | (request_due & ~requests.ready)
            ),
        ]
        with m.If(slots.ready):
            m.d.sync += slot_due.eq(0)
        with m.If(jobs.valid & jobs.ready):
            m.d.sync += job_due.eq(0)
        with m.If(requests.valid & requests.ready):
            m.d.sync += request_due.eq(0)
        with m.If(~holder.holds):
            m.d.sync += [
                slot_due.eq(self.issue.valid),
                job_due.eq(self.issue.valid & some),
                request_due.eq(self.issue.valid & some),
                empty.eq(~some),
                beyond.eq(self._is_beyond(m, incoming)),
                head.eq(self.issue.payload),
                *transfer.take(incoming, self.base_address, self.region_words),
            ]

        beats = Signal.like(requests.payload.beats)
        with m.Switch(fields.memory):
            for memory in OutMemory:
                with m.Case(memory):
                    shift = (memory_beats(variant, memory) - 1).bit_length()
                    m.d.comb += beats.eq(fields.cols << shift)
        # Rows and requests wait until the slot is taken.
        may_move = slots.ready | ~slot_due
        m.d.comb += [
            slots.valid.eq(slot_due),
            slots.payload.empty.eq(empty),
            slots.payload.retire.push.eq(fields.push),
            slots.payload.retire.mark.eq(fields.mark),
            slots.payload.retire.tag.eq(fields.tag),
            slots.payload.retire.index.eq(head.index),
            jobs.valid.eq(job_due & may_move),
            jobs.payload.memory.eq(fields.memory),
            jobs.payload.row.eq(fields.row),
            jobs.payload.beyond.eq(beyond),
            jobs.payload.blocks.eq(fields.blocks),
            jobs.payload.rows.eq(fields.rows),
            jobs.payload.cols.eq(fields.cols),
            jobs.payload.index.eq(head.index),
            requests.valid.eq(request_due & may_move),
            *transfer.show(requests.payload, head, beats),
        ]
        return holder.holds

    def _is_beyond(self, m: Module, fields: data.View) -> Value:
        """Whether the first row of an instruction is past the end of its scratchpad."""
        result = Signal(name="first_beyond")
        with m.Switch(fields.memory):
            for memory in OutMemory:
                with m.Case(memory):
                    depth = scratchpad(self._variant, memory.memory).depth_rows
                    m.d.comb += result.eq(fields.row[depth.bit_length() - 1 :].any())
        return result

    def _retire(
        self,
        m: Module,
        waiting: stream.Interface,
        acknowledged: Acknowledgements,
        reader: RowReader,
        requests: StridedRequests,
    ) -> None:
        """Retire the oldest instruction, or report an error."""
        halted = Signal()
        empty = waiting.payload.empty
        fails = waiting.valid & ~empty & ~acknowledged.some & acknowledged.bad
        m.d.comb += [
            waiting.ready.eq((empty | acknowledged.some) & ~halted),
            acknowledged.take.eq(waiting.valid & waiting.ready & ~empty),
        ]
        m.d.sync += [
            self.retire.valid.eq(waiting.valid & waiting.ready),
            self.retire.payload.eq(waiting.payload.retire),
            self.error.valid.eq((fails | reader.beyond | requests.beyond) & ~halted),
            self.error.index.eq(
                Mux(
                    fails,
                    waiting.payload.retire.index,
                    Mux(reader.beyond, reader.index, requests.index),
                )
            ),
            self.error.code.eq(
                Mux(
                    fails,
                    Mux(acknowledged.code[0], ErrorCode.WRITE_DECERR, ErrorCode.WRITE_SLVERR),
                    Mux(reader.beyond, ErrorCode.ROW_RANGE, ErrorCode.MEMORY_RANGE),
                )
            ),
        ]
        with m.If(fails | reader.beyond | requests.beyond):
            m.d.sync += halted.eq(1)
