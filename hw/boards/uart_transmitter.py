"""The sending half of a serial port: bytes -> a pin."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.family import Platform

__all__ = ["UartTransmitter"]


class UartTransmitter(wiring.Component):
    """8 data bits, no parity, 1 stop bit, lowest bit first; the line rests at 1.

    Throughput: a byte in 10 bits of `divisor` cycles each, without a gap.

    Parameters
    ----------
    divisor
        Clock cycles of a bit.

    Members
    -------
    i : ``In(stream.Signature(8))``
    pin : ``Out(1)``, a registered output.
    """

    def __init__(self, *, divisor: int) -> None:
        if divisor < 1:
            raise ValueError(f"divisor must be at least 1, not {divisor!r}")
        self._divisor = divisor
        super().__init__({"i": In(stream.Signature(8)), "pin": Out(1, init=1)})

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        count = Signal(range(self._divisor))
        bits_left = Signal(range(11))
        shifted = Signal(9, init=~0)
        end_of_bit = Signal()
        m.d.comb += [
            end_of_bit.eq(count == 0),
            self.i.ready.eq((bits_left == 0) | ((bits_left == 1) & end_of_bit)),
        ]
        m.d.sync += count.eq(count - 1)
        with m.If(self.i.ready):
            with m.If(self.i.valid):
                m.d.sync += [
                    self.pin.eq(0),
                    shifted.eq(Cat(self.i.payload, Const(1, 1))),
                    bits_left.eq(10),
                    count.eq(self._divisor - 1),
                ]
            with m.Else():
                m.d.sync += bits_left.eq(0)
        with m.Elif(end_of_bit):
            m.d.sync += [
                self.pin.eq(shifted[0]),
                shifted.eq((shifted >> 1) | (1 << 8)),
                bits_left.eq(bits_left - 1),
                count.eq(self._divisor - 1),
            ]
        return m
