"""STORE: scratchpad rows to strided tiles in memory.

Input: STORE instructions. Output: requests and words to the write master. Three parts run at once,
each on its own instruction: requests go ahead, rows are read and cut into words (`RowReader`), and
the oldest instruction waits for its acknowledgements.
"""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect, flipped

from daedal.hw.interfaces import (
    Activity,
    read_request,
    scratchpad_read_signature,
    unit_signature,
    write_response,
)
from daedal.hw.layouts import retire_layout, row_bits
from daedal.hw.queue import Queue
from daedal.hw.row_reader import RowReader, store_job_layout
from daedal.hw.strided import StridedRequests, word_address_bits
from daedal.isa.registers import ErrorCode
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import BASES, Opcode, OutMemory
from daedal.isa.variant import Variant

__all__ = ["Store"]

_IN_MASTER = 4
"""Requests that may sit in the write master beyond its open bursts."""

_AHEAD = 4
"""Instructions between the front and the one whose rows are read."""


class Store(wiring.Component):
    """The STORE unit.

    Throughput: one bus word per cycle, without a gap between rows or instructions. It retires in
    order, an instruction when the bus has acknowledged all its writes.

    A row past the end of the scratchpad is ROW_RANGE (it is not read), a bad BRESP WRITE_SLVERR or
    WRITE_DECERR, reported when all writes of the instruction are acknowledged; after an error the
    unit stands still until it is reset.

    Parameters
    ----------
    variant
        The machine.

    Members
    -------
    issue, retire, activity, work, error : see `interfaces.unit_signature`; work is bus words.
    base_address : ``In(data.ArrayLayout(word_address_bits(variant), 4))``
        Base registers, as addresses of bus words.
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
                "out_read": Out(scratchpad_read_signature(out.index_bits, out.row_bits)),
                "acc_read": Out(stream.Signature(row_bits(variant, Memory.ACC))),
                "acc_data": In(wiring.Signature({"valid": Out(1), "data": Out(acc.row_bits)})),
                "request": Out(read_request(variant)),
                "data": Out(stream.Signature(variant.bus.data_bits)),
                "response": In(write_response()),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        variant = self._variant
        m.submodules.requests = requests = StridedRequests(variant=variant)
        m.submodules.jobs = jobs = Queue(store_job_layout(variant), depth=_AHEAD)
        m.submodules.reader = reader = RowReader(variant=variant)
        waiting_layout = data.StructLayout({"retire": retire_layout(), "empty": 1})
        m.submodules.waiting = waiting = Queue(waiting_layout, depth=variant.bus.write_bursts)

        # The instruction at hand, with its start address.
        held = Signal()
        leave = Signal()
        head = Signal.like(self.issue.payload, reset_less=True)
        fields = head.instruction
        address = Signal(word_address_bits(variant), reset_less=True)
        incoming = self.issue.payload.instruction
        empty = (fields.blocks == 0) | (fields.rows == 0) | (fields.cols == 0)
        m.d.comb += self.issue.ready.eq(~held | leave)
        with m.If(self.issue.ready):
            m.d.sync += [
                held.eq(self.issue.valid),
                head.eq(self.issue.payload),
                address.eq(self.base_address[incoming.base] + incoming.offset_beats),
            ]

        shifts = [
            (scratchpad(variant, memory.memory).row_beats(variant) - 1).bit_length()
            for memory in OutMemory
        ]
        job, slot = jobs.i.payload, waiting.i.payload
        m.d.comb += [
            leave.eq(held & waiting.i.ready & (empty | (jobs.i.ready & requests.i.ready))),
            jobs.i.valid.eq(leave & ~empty),
            job.memory.eq(fields.memory),
            job.row.eq(fields.row),
            job.last_block.eq(fields.blocks - 1),
            job.last_row.eq(fields.rows - 1),
            job.last_col.eq(fields.cols - 1),
            job.index.eq(head.index),
            requests.i.valid.eq(leave & ~empty),
            requests.i.payload.address.eq(address),
            requests.i.payload.beats.eq(
                Mux(
                    fields.memory == OutMemory.ACC,
                    fields.cols << shifts[OutMemory.ACC],
                    fields.cols << shifts[OutMemory.OUT],
                )
            ),
            requests.i.payload.blocks.eq(fields.blocks),
            requests.i.payload.rows.eq(fields.rows),
            requests.i.payload.row_stride.eq(fields.row_stride_beats),
            requests.i.payload.block_stride.eq(fields.block_stride_beats),
            waiting.i.valid.eq(leave),
            slot.empty.eq(empty),
            slot.retire.push.eq(fields.push),
            slot.retire.mark.eq(fields.mark),
            slot.retire.tag.eq(fields.tag),
            slot.retire.index.eq(head.index),
        ]

        connect(m, jobs.o, reader.job)
        connect(m, reader.out_read, flipped(self.out_read))
        connect(m, reader.acc_read, flipped(self.acc_read))
        connect(m, flipped(self.acc_data), reader.acc_data)
        connect(m, reader.data, flipped(self.data))
        acknowledged = self._acknowledge(m, requests.o)
        self._retire(m, waiting.o, acknowledged, reader)

        m.d.comb += self.work.eq(self.data.valid & self.data.ready)
        with m.If(self.work):
            m.d.comb += self.activity.eq(Activity.BUSY)
        with m.Elif(held | ~jobs.empty | reader.active):
            m.d.comb += self.activity.eq(Activity.STALL)
        with m.Elif(~waiting.empty | self.retire.valid):
            m.d.comb += self.activity.eq(Activity.DRAIN)
        return m

    def _acknowledge(self, m: Module, requests: stream.Interface) -> SyncFIFO:
        """Send requests on, and turn their responses into the worst one of each instruction."""
        m.submodules.lasts = lasts = SyncFIFO(
            width=1, depth=self._variant.bus.write_bursts + _IN_MASTER
        )
        # As deep as the queue of waiting instructions with its output register.
        m.submodules.acknowledged = acknowledged = SyncFIFO(
            width=2, depth=self._variant.bus.write_bursts + 1
        )
        worst = Signal(2)
        so_far = Mux(self.response.response > worst, self.response.response, worst)
        instruction_end = self.response.valid & lasts.r_data
        m.d.comb += [
            self.request.valid.eq(requests.valid & lasts.w_rdy),
            self.request.payload.eq(requests.payload.request),
            requests.ready.eq(self.request.ready & lasts.w_rdy),
            lasts.w_en.eq(requests.valid & requests.ready),
            lasts.w_data.eq(requests.payload.last),
            lasts.r_en.eq(self.response.valid),
            acknowledged.w_en.eq(instruction_end),
            acknowledged.w_data.eq(so_far),
        ]
        with m.If(self.response.valid):
            m.d.sync += worst.eq(Mux(lasts.r_data, 0, so_far))
        return acknowledged

    def _retire(
        self,
        m: Module,
        waiting: stream.Interface,
        acknowledged: SyncFIFO,
        reader: RowReader,
    ) -> None:
        """Let the oldest instruction go, or report what went wrong."""
        halted = Signal()
        bad = ~waiting.payload.empty & acknowledged.r_data[1]
        m.d.comb += [
            waiting.ready.eq((waiting.payload.empty | acknowledged.r_rdy) & ~halted),
            acknowledged.r_en.eq(waiting.valid & waiting.ready & ~waiting.payload.empty),
        ]
        leaves = waiting.valid & waiting.ready
        m.d.sync += [
            self.retire.valid.eq(leaves & ~bad),
            self.retire.payload.eq(waiting.payload.retire),
            self.error.valid.eq(0),
        ]
        with m.If(leaves & bad):
            m.d.sync += [
                halted.eq(1),
                self.error.valid.eq(1),
                self.error.index.eq(waiting.payload.retire.index),
                self.error.code.eq(
                    Mux(acknowledged.r_data[0], ErrorCode.WRITE_DECERR, ErrorCode.WRITE_SLVERR)
                ),
            ]
        with m.Elif(reader.beyond & ~halted):
            m.d.sync += [
                halted.eq(1),
                self.error.valid.eq(1),
                self.error.index.eq(reader.index),
                self.error.code.eq(ErrorCode.ROW_RANGE),
            ]
