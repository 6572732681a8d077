"""Claims about the burst splitter: its bursts are legal and cover exactly the requests."""

from types import ModuleType
from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data

from daedal.hw.bus import burst
from daedal.hw.formal.claims import Claims
from daedal.isa.latencies import MAX_BURST_BEATS, PAGE_BYTES
from daedal.isa.variant import Variant

__all__ = ["BurstSplitting"]


class BurstSplitting(Claims):
    """Each request becomes contiguous bursts of legal length that add up to it.

    A model holds the remainders of the current and the waiting request, as two addresses and two
    counts. Every burst must be the first words of the remainder: at most 32, none past a 4 KiB
    boundary, and `last` set exactly if nothing remains after it. Together with the claims on
    registers, all claims are inductive in one cycle, at the full widths. The output buffer is
    verified separately (`streams.FirstInFirstOut`).

    Parameters
    ----------
    variant : gives the widths.
    module : `hw.bus.burst`; tests pass a broken one.
    """

    def __init__(self, *, variant: Variant, module: ModuleType = burst) -> None:
        super().__init__()
        self._variant = variant
        self._module: Any = module

    def state(self, m: Module) -> None:
        block = self._module.BurstSplitter(variant=self._variant)
        inside = self.place(m, "block", block)
        request = block.i.payload
        valid = self.free(1, "give")
        m.d.comb += [
            block.i.valid.eq(valid),
            request.address.eq(self.free(len(request.address), "address")),
            request.beats.eq(self.free(len(request.beats), "beats")),
            block.o.ready.eq(self.free(1, "take")),
        ]
        self.assume(m, "some_beats", ~valid | (request.beats != 0))

        layout = request.shape()
        left, behind = Signal(layout, name="left"), Signal(layout, name="behind")
        is_left, is_behind = Signal(), Signal()
        # The input of the output buffer: `o` of the splitter proper.
        out = data.View(block.o.payload.shape(), inside["i__payload"])
        taken = inside["i__valid"] & inside["offer.i__ready"]
        self._follow(m, block, out, taken, (is_left, left), (is_behind, behind))

        page_words = PAGE_BYTES // self._variant.bus_bytes
        to_page = page_words - left.address[: (page_words - 1).bit_length()]
        most = Signal(range(MAX_BURST_BEATS + 1))
        m.d.comb += most.eq(Mux(to_page < MAX_BURST_BEATS, to_page, MAX_BURST_BEATS))
        ends = left.beats <= most
        claims = {
            "one_to_32_beats": (out.beats != 0) & (out.beats <= MAX_BURST_BEATS),
            "within_a_page": out.beats <= to_page,
            "no_more_than_is_left": out.beats <= left.beats,
            "begins_where_the_last_ended": out.address == left.address,
            "last_where_nothing_is_left": out.last == (out.beats == left.beats),
            "as_long_as_it_can_be": out.beats == Mux(ends, left.beats, most),
        }
        for name, holds in claims.items():
            self.require(m, name, ~is_left | holds)
        self.require(m, "offers_what_is_left", inside["i__valid"] == is_left)
        self.require(m, "accepts", block.i.ready == ~is_behind)
        # The registers equal the model's; their flags are covered by the splitter's own contracts.
        for some, model, name in ((is_left, left, "rest"), (is_behind, behind, "waiting")):
            request = inside[name][: len(model.as_value())]
            self.require(m, f"{name}_is_known", ~some | (request == model.as_value()))
            self.require(m, f"{name}_has_words", ~some | (model.beats != 0))
        self.reach(m, "three_bursts", taken & (left.beats > 2 * MAX_BURST_BEATS))
        self.reach(m, "page_end", taken & (to_page < MAX_BURST_BEATS) & ~out.last)
        self.reach(m, "waits", is_behind)

    def _follow(self, m: Module, block: Any, out: Any, taken: Any, first: Any, second: Any) -> None:
        """The model: requests arrive, bursts take their words from the first one."""
        (is_left, left), (is_behind, behind) = first, second
        comes = block.i.valid & block.i.ready
        with m.If(~is_left | (taken & out.last)):
            m.d.sync += [
                is_left.eq(is_behind | comes),
                left.eq(Mux(is_behind, behind, block.i.payload)),
                is_behind.eq(0),
            ]
        with m.Else():
            with m.If(comes):
                m.d.sync += [is_behind.eq(1), behind.eq(block.i.payload)]
            with m.If(taken):
                m.d.sync += [
                    left.address.eq(left.address + out.beats),
                    left.beats.eq(left.beats - out.beats),
                ]
