"""Answers as bytes: header, payload, CRC.

Input: an answer's header, and its payload byte by byte. Output: the bytes for the serial port.
"""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.crc.catalog import CRC32_ISO_HDLC
from amaranth.lib.wiring import In, Out

from daedal.common.bridge import ANSWER_FIELDS, ANSWER_HEADER_BYTES, ANSWER_SYNC, CRC_BYTES
from daedal.hw.family import Platform
from daedal.hw.pipeline import register

__all__ = ["FrameSender", "answer_layout"]

_HEADER = {name: 8 * size for name, size in ANSWER_FIELDS.items() if name != "sync"}


def answer_layout() -> data.StructLayout:
    """An answer's fields; `count` bytes of payload follow them."""
    return data.StructLayout(_HEADER)


class FrameSender(wiring.Component):
    """Send one frame at a time.

    Throughput: one byte every three cycles; the serial port takes ten bit times per byte.

    Members
    -------
    answer : ``In(stream.Signature(answer_layout()))``, taken with the last byte of the frame.
    payload : ``In(stream.Signature(8))``, exactly `count` bytes of each answer.
    o : ``Out(stream.Signature(8))``, registered outputs.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "answer": In(stream.Signature(answer_layout())),
                "payload": In(stream.Signature(8)),
                "o": Out(stream.Signature(8)),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        m.submodules.crc = crc = CRC32_ISO_HDLC(data_width=8).create()
        shifted = Signal(8 * ANSWER_HEADER_BYTES, reset_less=True)
        bytes_left = Signal(range(ANSWER_HEADER_BYTES + 1))
        payload_left = Signal.like(self.answer.payload["count"], reset_less=True)
        # A state lies between a change of `payload_left` and the test: a register costs no time.
        payload_sent = register(m, payload_left == 0, name="payload_sent")
        crc_bytes = Array(crc.crc.word_select(number, 8) for number in range(CRC_BYTES))
        m.d.comb += crc.data.eq(self.o.payload)

        def send(value: Any, after: str) -> None:
            """Offer a byte; when it is accepted, go to state `after`."""
            m.d.sync += [self.o.valid.eq(1), self.o.payload.eq(value)]
            m.next = after

        def sent(counted: bool) -> Any:
            """Update the state when the offered byte is accepted."""
            gone = self.o.valid & self.o.ready
            m.d.comb += crc.valid.eq(gone & counted)
            with m.If(gone):
                m.d.sync += self.o.valid.eq(0)
            return m.If(gone)

        with m.FSM():
            with m.State("REST"):
                m.d.comb += crc.start.eq(1)
                m.d.sync += [
                    shifted.eq(Cat(Const(ANSWER_SYNC, 8), self.answer.payload)),
                    bytes_left.eq(ANSWER_HEADER_BYTES),
                    payload_left.eq(self.answer.payload["count"]),
                ]
                with m.If(self.answer.valid):
                    m.next = "HEADER"
            with m.State("HEADER"):
                m.d.sync += [shifted.eq(shifted >> 8), bytes_left.eq(bytes_left - 1)]
                send(shifted[:8], "HEADER SENT")
            with m.State("HEADER SENT"):
                with sent(counted=True):
                    m.next = "HEADER"
                    with m.If(bytes_left == 0):
                        m.next = "PAYLOAD"
            with m.State("PAYLOAD"):
                m.d.sync += bytes_left.eq(0)
                with m.If(payload_sent):
                    m.next = "CRC"
                with m.Elif(self.payload.valid):
                    m.d.comb += self.payload.ready.eq(1)
                    m.d.sync += payload_left.eq(payload_left - 1)
                    send(self.payload.payload, "PAYLOAD SENT")
            with m.State("PAYLOAD SENT"):
                with sent(counted=True):
                    m.next = "PAYLOAD"
            with m.State("CRC"):
                m.d.sync += bytes_left.eq(bytes_left + 1)
                send(crc_bytes[bytes_left[:2]], "CRC SENT")
            with m.State("CRC SENT"):
                with sent(counted=False):
                    m.next = "CRC"
                    with m.If(bytes_left == CRC_BYTES):
                        m.d.comb += self.answer.ready.eq(1)
                        m.next = "REST"
        return m
