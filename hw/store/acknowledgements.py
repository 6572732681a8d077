"""Collects the write responses of STORE's requests by instruction.

Input: requests to the write master, and its responses. Output: how many instructions are
acknowledged, and the error of the first one that failed.
"""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.bus.strided import strided_request_layout
from daedal.hw.contracts import contract
from daedal.hw.family import Platform
from daedal.hw.interfaces import read_request, write_response
from daedal.hw.parts.queue import Queue
from daedal.isa.latencies import STORE_REQUESTS_IN_MASTER
from daedal.isa.variant import Variant

__all__ = ["Acknowledgements"]


class Acknowledgements(wiring.Component):
    """Forward requests, and count the instructions whose requests all have a good response.

    An instruction gets the worst of the responses to its requests. After the first bad one the unit
    halts, and later responses are ignored.

    Parameters
    ----------
    variant
        The machine.

    Members
    -------
    i : ``In(stream.Signature(strided_request_layout(variant)))``
    request, response : ``Out(read_request(variant))``, ``In(write_response())``
        To writer 0 of the write master.
    some : ``Out(1)``
        A good instruction has not been taken yet; a registered output.
    take : ``In(1)``
        Take it.
    bad, code : ``Out(1)``, ``Out(2)``
        The instruction after all good ones failed, with this response; registered outputs.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        super().__init__(
            {
                "i": In(stream.Signature(strided_request_layout(variant))),
                "request": Out(read_request(variant)),
                "response": In(write_response()),
                "some": Out(1),
                "take": In(1),
                "bad": Out(1),
                "code": Out(2),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        bursts = self._variant.bus.write_bursts
        # Including its output register, one place per unanswered request.
        m.submodules.lasts = lasts = Queue(1, depth=bursts + STORE_REQUESTS_IN_MASTER - 1)
        m.d.comb += [
            self.request.valid.eq(self.i.valid & lasts.i.ready),
            self.request.payload.eq(self.i.payload.request),
            self.i.ready.eq(self.request.ready & lasts.i.ready),
            lasts.i.valid.eq(self.i.valid & self.request.ready),
            lasts.i.payload.eq(self.i.payload.last),
            lasts.o.ready.eq(self.response.valid),
        ]
        worst = Signal(2)
        so_far = Mux(self.response.response > worst, self.response.response, worst)
        with m.If(self.response.valid):
            m.d.sync += worst.eq(Mux(lasts.o.payload, 0, so_far))

        ends = self.response.valid & lasts.o.payload & ~self.bad
        # At most as many as wait in STORE: its queue and the queue's output register.
        good = Signal(range(bursts + 2))
        next_good = Signal.like(good)
        m.d.comb += next_good.eq(good + (ends & ~so_far[1]) - self.take)
        m.d.sync += [good.eq(next_good), self.some.eq(next_good != 0)]
        with m.If(ends & so_far[1]):
            m.d.sync += [self.bad.eq(1), self.code.eq(so_far)]
        for holds, rule in (
            (~self.response.valid | lasts.o.valid, "only a request must be answered"),
            (~self.take | self.some, "only a good instruction must be taken"),
            ((good <= bursts) | ~ends | self.take, "no more must be good than STORE holds"),
        ):
            contract(m, platform, holds, rule)
        return m
