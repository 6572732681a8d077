"""LOAD: strided, padded tiles from memory into the scratchpads.

Input: LOAD instructions. Output: requests to the read master, and the words (and pads) on the fill
port. A front runs ahead and asks for the words of later instructions while `LoadFiller` still
writes those of earlier ones, so queued loads hide their latencies.
"""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from daedal.hw.filler import LoadFiller, memory_beats
from daedal.hw.interfaces import (
    Activity,
    fill_signature,
    pad_signature,
    read_request,
    read_word,
    unit_signature,
)
from daedal.hw.plane_walk import load_job_layout
from daedal.hw.queue import Queue
from daedal.hw.strided import StridedRequests, word_address_bits
from daedal.isa.table import BASES, LoadMemory, Opcode
from daedal.isa.transfer import PADDABLE
from daedal.isa.variant import Variant

__all__ = ["Load"]


class Load(wiring.Component):
    """The LOAD unit.

    Throughput: one bus word per cycle, without a gap between rows or instructions; pads of INP are
    written beside the words and cost nothing while an instruction has at least twice as many bus
    words as rows of pad (see `LoadFiller`), but for one cycle per line of pads above data. As many
    instructions as the bus may have bursts open are asked for ahead. Retirement is one cycle after
    the last word was accepted on `fill`.

    A memory code or a pad that the table does not allow is ILLEGAL_INSTRUCTION, a row past the end
    of the scratchpad ROW_RANGE (nothing is written there), a bad RRESP READ_SLVERR or READ_DECERR;
    after an error the unit stands still until it is reset.

    Parameters
    ----------
    variant
        The machine.

    Members
    -------
    issue, retire, activity, work, error : see `interfaces.unit_signature`; work is bus words.
    base_address : ``In(data.ArrayLayout(word_address_bits(variant), 4))``
        Base registers, as addresses of bus words.
    request, data : ``Out(read_request(variant))``, ``In(read_word(variant))``
        To reader 1 of the read master.
    fill, pads : ``Out(fill_signature(variant))``, ``Out(pad_signature(variant))``
        Pads of ACC_NARROW appear as pads of ACC: their value is not narrowed.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        super().__init__(
            {
                **unit_signature(variant, Opcode.LOAD),
                "base_address": In(data.ArrayLayout(word_address_bits(variant), len(BASES))),
                "request": Out(read_request(variant)),
                "data": In(read_word(variant)),
                "fill": Out(fill_signature(variant)),
                "pads": Out(pad_signature(variant)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        variant = self._variant
        m.submodules.requests = requests = StridedRequests(variant=variant)
        m.submodules.jobs = jobs = Queue(load_job_layout(variant), depth=variant.bus.read_bursts)
        m.submodules.filler = filler = LoadFiller(variant=variant)

        held = self._take(m, jobs.i, requests.i)
        m.d.comb += [
            self.request.valid.eq(requests.o.valid),
            self.request.payload.eq(requests.o.payload.request),
            requests.o.ready.eq(self.request.ready),
        ]
        connect(m, jobs.o, filler.job)
        connect(m, flipped(self.data), filler.data)
        connect(m, filler.fill, flipped(self.fill))
        connect(m, filler.pads, flipped(self.pads))
        connect(m, filler.retire, flipped(self.retire))
        connect(m, filler.error, flipped(self.error))
        m.d.comb += self.work.eq(filler.work)
        with m.If(filler.work | filler.padding):
            m.d.comb += self.activity.eq(Activity.BUSY)
        with m.Elif(held | ~jobs.empty | filler.active):
            m.d.comb += self.activity.eq(Activity.STALL)
        with m.Elif(filler.draining):
            m.d.comb += self.activity.eq(Activity.DRAIN)
        return m

    def _take(self, m: Module, jobs: stream.Interface, requests: stream.Interface) -> Value:
        """The instruction at hand goes on to the filler and to its requests.

        Each of them takes it by itself. Returns whether there is one.
        """
        head = Signal.like(self.issue.payload, reset_less=True)
        fields = head.instruction
        address = Signal(word_address_bits(self._variant), reset_less=True)
        illegal = Signal(reset_less=True)
        job_due, request_due = Signal(), Signal()
        incoming = self.issue.payload.instruction
        bad = self._is_illegal(m, incoming)
        some = (incoming.blocks != 0) & (incoming.rows != 0) & (incoming.cols != 0)
        m.d.comb += self.issue.ready.eq(~(job_due | request_due))
        with m.If(jobs.ready):
            m.d.sync += job_due.eq(0)
        with m.If(requests.ready):
            m.d.sync += request_due.eq(0)
        with m.If(self.issue.ready):
            m.d.sync += [
                job_due.eq(self.issue.valid),
                request_due.eq(self.issue.valid & some & ~bad),
                illegal.eq(bad),
                head.eq(self.issue.payload),
                address.eq(self.base_address[incoming.base] + incoming.offset_beats),
            ]
        self._prepare_job(m, head, illegal, jobs.payload)
        m.d.comb += [
            jobs.valid.eq(job_due),
            requests.valid.eq(request_due),
            requests.payload.address.eq(address),
            requests.payload.beats.eq(self._row_beats(m, fields)),
            requests.payload.blocks.eq(fields.blocks),
            requests.payload.rows.eq(fields.rows),
            requests.payload.row_stride.eq(fields.row_stride_beats),
            requests.payload.block_stride.eq(fields.block_stride_beats),
        ]
        return job_due | request_due

    def _is_illegal(self, m: Module, fields: data.View) -> Value:
        """Whether an instruction has a memory or pads that the table does not allow."""
        result = Signal(name="is_illegal")
        with m.Switch(fields.memory):
            for memory in LoadMemory:
                with m.Case(memory):
                    m.d.comb += result.eq(0 if memory in PADDABLE else _pads(fields).any())
            with m.Default():
                m.d.comb += result.eq(1)
        return result

    def _row_beats(self, m: Module, fields: data.View) -> Signal:
        """Bus words of one row of memory: a shift, for all row sizes are powers of two."""
        beats = Signal.like(self.request.payload.beats, name="row_beats")
        with m.Switch(fields.memory):
            for memory in LoadMemory:
                with m.Case(memory):
                    shift = (memory_beats(self._variant, memory) - 1).bit_length()
                    m.d.comb += beats.eq(fields.cols << shift)
        return beats

    def _prepare_job(self, m: Module, head: data.View, illegal: Value, job: data.View) -> None:
        """Derive what the filler needs."""
        fields = head.instruction
        height = fields.pad_top + fields.rows + fields.pad_bottom
        width = fields.pad_left + fields.cols + fields.pad_right
        pads = _pads(fields).any()
        has_data = (fields.rows != 0) & (fields.cols != 0)
        m.d.comb += [
            job.memory.eq(fields.memory),
            job.first_row.eq(fields.row),
            job.first_column.eq(fields.row + fields.pad_left),
            job.illegal.eq(illegal),
            job.has_data.eq(has_data & (fields.blocks != 0)),
            job.has_pads.eq(
                (pads | ~has_data) & (fields.blocks != 0) & (height != 0) & (width != 0)
            ),
            job.has_right.eq(fields.pad_right != 0),
            job.last_block.eq(fields.blocks - 1),
            job.last_y.eq(height - 1),
            job.last_x.eq(width - 1),
            job.begin_y.eq(fields.pad_top),
            job.begin_x.eq(fields.pad_left),
            job.end_y.eq(fields.pad_top + fields.rows),
            job.end_x.eq(fields.pad_left + fields.cols),
            job.cols.eq(fields.cols),
            job.width.eq(width),
            job.to_next.eq(fields.pad_left + fields.pad_right + 1),
            job.pad_value.eq(fields.pad_value),
            job.retire.push.eq(fields.push),
            job.retire.mark.eq(fields.mark),
            job.retire.tag.eq(fields.tag),
            job.retire.index.eq(head.index),
        ]


def _pads(fields: data.View) -> Value:
    """All pads of an instruction, side by side."""
    return Cat(fields.pad_top, fields.pad_bottom, fields.pad_left, fields.pad_right)
