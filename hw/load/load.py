"""LOAD: strided, padded tiles from memory into the scratchpads.

Input: LOAD instructions. Output: requests to the read master, and the words (and pads) on the fill
port. A front end runs ahead and requests the words of later instructions while `LoadFiller` still
writes those of earlier ones, so the latencies of queued loads overlap.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from daedal.hw.bus.strided import StridedRequests, TransferHead
from daedal.hw.family import Platform
from daedal.hw.interfaces import (
    Activity,
    fill_signature,
    pad_signature,
    read_request,
    read_word,
    unit_signature,
)
from daedal.hw.layouts import word_address_bits
from daedal.hw.load.filler import LoadFiller, load_job_layout
from daedal.hw.load.plane_walk import data_walk_layout, pad_walk_layout
from daedal.hw.parts.holder import Holder
from daedal.hw.parts.queue import Queue
from daedal.isa.registers import ErrorCode
from daedal.isa.table import BASES, LoadMemory, Opcode
from daedal.isa.transfer import PADDABLE, memory_beats
from daedal.isa.variant import Variant

__all__ = ["Load"]

_COUNTS = ("blocks", "rows", "cols", "pad_top", "pad_bottom", "pad_left", "pad_right")
"""Fields that may be 0; each gets a registered flag for that."""


class Load(wiring.Component):
    """The LOAD unit.

    Throughput: one bus word per cycle, without a gap between rows or instructions. Pads of INP are
    written in parallel with the words and cost nothing while an instruction has at least twice as
    many bus words as rows of pad (see `LoadFiller`), except for one cycle per line of pads above
    data. The front end runs ahead by as many instructions as the bus may have outstanding bursts,
    and accepts one instruction every two cycles at most. Retirement is one cycle after the last
    word was accepted on `fill`.

    A memory code or a pad that the table does not allow is ILLEGAL_INSTRUCTION, a row past the end
    of the scratchpad ROW_RANGE (nothing is written there), a row of memory that is not inside its
    region MEMORY_RANGE (it is not asked for), a bad RRESP READ_SLVERR or READ_DECERR; after an
    error the unit halts until it is reset. MEMORY_RANGE comes from the front end, so it may be
    reported before an error of an earlier instruction.

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
                "region_words": In(data.ArrayLayout(word_address_bits(variant), len(BASES))),
                "request": Out(read_request(variant)),
                "data": In(read_word(variant)),
                "fill": Out(fill_signature(variant)),
                "pads": Out(pad_signature(variant)),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        variant = self._variant
        m.submodules.requests = requests = StridedRequests(variant=variant)
        depth = variant.bus.read_bursts
        m.submodules.jobs = jobs = Queue(load_job_layout(variant), depth=depth)
        # The walks are never behind the filler: if its queue has room for a job, so do theirs.
        m.submodules.data_jobs = data_jobs = Queue(
            data_walk_layout(variant), depth=depth, trusts=True
        )
        m.submodules.pad_jobs = pad_jobs = Queue(pad_walk_layout(variant), depth=depth, trusts=True)
        m.submodules.filler = filler = LoadFiller(variant=variant)

        held = self._take(m, jobs.i, (data_jobs, pad_jobs), requests.i)
        m.d.comb += [
            self.request.valid.eq(requests.o.valid),
            self.request.payload.eq(requests.o.payload.request),
            requests.o.ready.eq(self.request.ready),
        ]
        connect(m, jobs.o, filler.job)
        connect(m, data_jobs.o, filler.data_job)
        connect(m, pad_jobs.o, filler.pad_job)
        connect(m, flipped(self.data), filler.data)
        connect(m, filler.fill, flipped(self.fill))
        connect(m, filler.pads, flipped(self.pads))
        connect(m, filler.retire, flipped(self.retire))
        self._report(m, filler, requests)
        m.d.comb += self.work.eq(filler.work)
        with m.If(filler.work | filler.padding):
            m.d.comb += self.activity.eq(Activity.BUSY)
        with m.Elif(held | ~jobs.empty | filler.active):
            m.d.comb += self.activity.eq(Activity.STALL)
        with m.Elif(filler.draining):
            m.d.comb += self.activity.eq(Activity.DRAIN)
        return m

    def _take(
        self,
        m: Module,
        jobs: stream.Interface,
        walk_jobs: tuple[Queue, Queue],
        requests: stream.Interface,
    ) -> Value:
        """Pass the current instruction to the filler and to the request generator.

        Each of them accepts it independently. Returns whether there is a current instruction.
        """
        head = Signal.like(self.issue.payload, reset_less=True)
        fields = head.instruction
        transfer = TransferHead(self._variant)
        illegal = Signal(reset_less=True)
        job_due, request_due = Signal(), Signal()
        incoming = self.issue.payload.instruction
        bad = self._is_illegal(m, incoming)
        some = (incoming.blocks != 0) & (incoming.rows != 0) & (incoming.cols != 0)
        m.submodules.holder = holder = Holder()
        m.d.comb += [
            self.issue.ready.eq(holder.ready),
            holder.valid.eq(self.issue.valid),
            holder.waits.eq((job_due & ~jobs.ready) | (request_due & ~requests.ready)),
        ]
        with m.If(jobs.ready):
            m.d.sync += job_due.eq(0)
        with m.If(requests.ready):
            m.d.sync += request_due.eq(0)
        with m.If(~holder.holds):
            m.d.sync += [
                job_due.eq(self.issue.valid),
                request_due.eq(self.issue.valid & some & ~bad),
                illegal.eq(bad),
                head.eq(self.issue.payload),
                *transfer.take(incoming, self.base_address, self.region_words),
            ]
        self._prepare(m, fields, jobs.payload, *(queue.i.payload for queue in walk_jobs))
        m.d.comb += [
            jobs.valid.eq(job_due),
            jobs.payload.illegal.eq(illegal),
            jobs.payload.retire.index.eq(head.index),
            *(queue.i.valid.eq(job_due & jobs.ready) for queue in walk_jobs),
            requests.valid.eq(request_due),
            *transfer.show(requests.payload, head, self._row_beats(m, fields)),
        ]
        return holder.holds

    def _report(self, m: Module, filler: LoadFiller, requests: StridedRequests) -> None:
        """Raise the error pulse; the filler's has priority, because its instruction is earlier."""
        told = Signal()
        m.d.sync += [
            told.eq(requests.beyond),
            self.error.valid.eq(filler.error.valid | (requests.beyond & ~told)),
            self.error.code.eq(Mux(filler.error.valid, filler.error.code, ErrorCode.MEMORY_RANGE)),
            self.error.index.eq(Mux(filler.error.valid, filler.error.index, requests.index)),
        ]

    def _is_illegal(self, m: Module, fields: data.View) -> Value:
        """Whether an instruction has a memory or pads that the table does not allow."""
        result = Signal(name="is_illegal")
        with m.Switch(fields.memory):
            for memory in LoadMemory.of(self._variant):
                with m.Case(memory):
                    m.d.comb += result.eq(0 if memory in PADDABLE else _pads(fields).any())
            with m.Default():
                m.d.comb += result.eq(1)
        return result

    def _row_beats(self, m: Module, fields: data.View) -> Signal:
        """Bus words of one row of memory: a shift, because all row sizes are powers of two."""
        beats = Signal.like(self.request.payload.beats, name="row_beats")
        with m.Switch(fields.memory):
            for memory in LoadMemory.of(self._variant):
                with m.Case(memory):
                    shift = (memory_beats(self._variant, memory) - 1).bit_length()
                    m.d.comb += beats.eq(fields.cols << shift)
        return beats

    def _prepare(
        self,
        m: Module,
        fields: data.View,
        job: data.View,
        data_job: data.View,
        pad_job: data.View,
    ) -> None:
        """Derive the jobs of the filler and its walks."""
        some = {name: Signal(name=f"some_{name}", reset_less=True) for name in _COUNTS}
        above_and_below = Signal(len(fields.pad_top) + 1, reset_less=True)
        beside = Signal(len(fields.pad_left) + 1, reset_less=True)
        incoming = self.issue.payload.instruction
        with m.If(self.issue.ready):
            m.d.sync += [
                *(flag.eq(incoming[name].any()) for name, flag in some.items()),
                above_and_below.eq(incoming.pad_top + incoming.pad_bottom),
                beside.eq(incoming.pad_left + incoming.pad_right),
            ]
        in_line = some["rows"] & some["cols"]
        has_data = in_line & some["blocks"]
        high = some["rows"] | some["pad_top"] | some["pad_bottom"]
        wide = some["cols"] | some["pad_left"] | some["pad_right"]
        pads = some["pad_top"] | some["pad_bottom"] | some["pad_left"] | some["pad_right"]
        width = fields.cols + beside
        for walk in (data_job, pad_job):
            m.d.comb += [
                walk.memory.eq(fields.memory),
                walk.cols.eq(fields.cols),
                walk.width.eq(width),
                walk.lines.blocks.eq(fields.blocks),
                walk.lines.top.eq(Mux(in_line, fields.pad_top, fields.rows + above_and_below)),
                walk.lines.rows.eq(fields.rows),
                walk.lines.bottom.eq(fields.pad_bottom),
                walk.lines.has_data.eq(has_data),
                walk.lines.has_top.eq(some["pad_top"] | ~in_line),
                walk.lines.has_bottom.eq(some["pad_bottom"]),
            ]
        m.d.comb += [
            data_job.first.eq(fields.row + fields.pad_left),
            data_job.to_next.eq(beside + 1),
            pad_job.first.eq(fields.row),
            pad_job.has_pads.eq(some["blocks"] & high & wide & (pads | ~in_line)),
            pad_job.left.eq(fields.pad_left),
            pad_job.right.eq(fields.pad_right),
            pad_job.has_left.eq(some["pad_left"]),
            pad_job.has_right.eq(some["pad_right"]),
            job.memory.eq(fields.memory),
            job.pad_value.eq(fields.pad_value),
            job.retire.push.eq(fields.push),
            job.retire.mark.eq(fields.mark),
            job.retire.tag.eq(fields.tag),
        ]


def _pads(fields: data.View) -> Value:
    """All pad fields of an instruction, concatenated."""
    return Cat(fields.pad_top, fields.pad_bottom, fields.pad_left, fields.pad_right)
