"""The receiving half of a serial port: a pin -> bytes."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from daedal.hw.family import Platform

__all__ = ["LEAST_DIVISOR", "UartReceiver", "received_byte"]

LEAST_DIVISOR = 4
"""Minimum clock cycles of a bit: a start bit is detected two to three cycles late, and its middle
must still lie within it."""


def received_byte() -> data.StructLayout:
    """A byte, and whether its stop bit was missing (a break, or another baud rate)."""
    return data.StructLayout({"data": 8, "broken": 1})


class UartReceiver(wiring.Component):
    """8 data bits, no parity, 1 stop bit, lowest bit first; the line rests at 1.

    A bit is sampled in its middle, counted from the edge of the start bit; a start bit that is no
    longer 0 in its middle is ignored as noise. A byte is offered for one cycle and lost if it is
    not accepted.

    Parameters
    ----------
    divisor
        Clock cycles of a bit, `LEAST_DIVISOR` or more.

    Members
    -------
    pin : ``In(1)``, asynchronous.
    o : ``Out(stream.Signature(received_byte(), always_ready=True))``, half a bit before the end of
        the stop bit.
    """

    def __init__(self, *, divisor: int) -> None:
        if divisor < LEAST_DIVISOR:
            raise ValueError(f"divisor must be at least {LEAST_DIVISOR}, not {divisor!r}")
        self._divisor = divisor
        super().__init__(
            {
                "pin": In(1, init=1),
                "o": Out(stream.Signature(received_byte(), always_ready=True)),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        line = Signal(init=1)
        m.submodules.synchronizer = FFSynchronizer(self.pin, line, init=1)

        count = Signal(range(self._divisor))
        sample = Signal()
        bits_left = Signal(range(9))
        shifted = Signal(8, reset_less=True)
        m.d.comb += sample.eq(count == 0)
        m.d.sync += [self.o.valid.eq(0), count.eq(count - 1)]
        with m.FSM():
            with m.State("REST"):
                m.d.sync += count.eq(self._divisor // 2 - 1)
                with m.If(~line):
                    m.next = "START"
            with m.State("START"):
                with m.If(sample):
                    m.d.sync += [count.eq(self._divisor - 1), bits_left.eq(8)]
                    with m.If(line):
                        m.next = "REST"
                    with m.Else():
                        m.next = "BITS"
            with m.State("BITS"):
                with m.If(sample):
                    m.d.sync += count.eq(self._divisor - 1)
                    with m.If(bits_left == 0):
                        m.d.sync += [
                            self.o.valid.eq(1),
                            self.o.payload.data.eq(shifted),
                            self.o.payload.broken.eq(~line),
                        ]
                        m.next = "REST"
                        with m.If(~line):
                            m.next = "BROKEN"
                    with m.Else():
                        m.d.sync += [
                            bits_left.eq(bits_left - 1),
                            shifted.eq(Cat(shifted[1:], line)),
                        ]
            with m.State("BROKEN"):
                # Wait until the line is idle again, not until the nominal end of the stop bit.
                with m.If(line):
                    m.next = "REST"
        return m
