"""Splits bursts at the ends of rows.

Input: bursts. Output: segments, each in one row.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.boards.sdram.layouts import request_layout, segment_layout
from daedal.hw.family import Platform
from daedal.isa.sdram_chip import SdramChip

__all__ = ["RowSplitter"]


class RowSplitter(wiring.Component):
    """Gives a burst's first segment two cycles after the burst, and the others every two cycles.

    A burst is accepted while there is none, or while the last segment of one is.

    Members
    -------
    request : ``In(stream.Signature(request_layout(chip)))``
    segment : ``Out(stream.Signature(segment_layout(chip)))``
    drop : ``In(1)``
        Forget a burst that is not the host's.
    """

    def __init__(self, *, chip: SdramChip) -> None:
        self._words = chip.row_words
        super().__init__(
            {
                "request": In(stream.Signature(request_layout(chip))),
                "segment": Out(stream.Signature(segment_layout(chip))),
                "drop": In(1),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        burst = Signal.like(self.request.payload, name="burst", reset_less=True)
        has_burst, is_sized = Signal(), Signal()
        segment = self.segment.payload
        words, last = Signal.like(segment.words, reset_less=True), Signal(reset_less=True)
        # Registered: how far it is to the end of the row.
        to_end = self._words - burst.column
        m.d.sync += [
            words.eq(Mux(burst.len >= to_end, to_end, burst.len + 1)),
            last.eq(burst.len < to_end),
            is_sized.eq(has_burst),
        ]
        m.d.comb += [
            self.segment.valid.eq(has_burst & is_sized),
            segment.words.eq(words),
            segment.last.eq(last),
            self.request.ready.eq(~has_burst | (is_sized & self.segment.ready & last)),
        ]
        for name in ("write", "host", "beyond", "id", "row", "bank", "column"):
            m.d.comb += segment[name].eq(burst[name])
        with m.If(self.segment.valid & self.segment.ready):
            m.d.sync += [
                is_sized.eq(0),
                burst.column.eq(0),
                Cat(burst.bank, burst.row).eq(Cat(burst.bank, burst.row) + 1),
                burst.len.eq(burst.len - words),
            ]
        with m.If(self.request.ready):
            m.d.sync += [
                has_burst.eq(self.request.valid),
                burst.eq(self.request.payload),
                is_sized.eq(0),
            ]
        with m.If(self.drop):
            kept = Mux(
                self.request.ready,
                self.request.valid & self.request.payload.host,
                has_burst & burst.host,
            )
            m.d.sync += has_burst.eq(kept)
        return m
