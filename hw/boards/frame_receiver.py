"""Requests from bytes: complete frames with a correct CRC, and a report of damaged ones.

Input: the bytes of the serial port. Output: one request at a time, its payload in a buffer.
"""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.crc.catalog import CRC32_ISO_HDLC
from amaranth.lib.wiring import In, Out

from daedal.common.bridge import (
    CRC_BYTES,
    MAX_HELD_REQUESTS,
    MAX_PAYLOAD_BYTES,
    REQUEST_FIELDS,
    REQUEST_HEADER_BYTES,
    REQUEST_SYNC,
    Op,
)
from daedal.hw.boards.uart_receiver import received_byte
from daedal.hw.family import Platform
from daedal.hw.primitives.block_ram import BlockRam

__all__ = ["PAYLOAD_LATENCY_CYCLES", "FrameReceiver", "request_layout"]

PAYLOAD_LATENCY_CYCLES = 2
"""Latency from an address of the payload buffer to its byte: the RAM and its output register."""

_HEADER = {name: 8 * size for name, size in REQUEST_FIELDS.items() if name != "sync"}
_HEADER_BYTES = REQUEST_HEADER_BYTES - 1


def request_layout() -> data.StructLayout:
    """A request's fields, and whether it instead reports a damaged frame."""
    return data.StructLayout({**_HEADER, "damaged": 1})


class FrameReceiver(wiring.Component):
    """Collect a frame, check it, and hold it until it is accepted, while the next one arrives.

    A damaged frame (no sync byte where one must be, a broken byte, a wrong CRC, a payload too long,
    silence in the middle) changes only its own payload buffer: everything is ignored until the line
    has been silent for `silence_cycles`, and then one request with `damaged` set is offered. So the
    first byte after a silence always starts a frame. While a request is offered and the next one is
    complete, bytes are ignored.

    Parameters
    ----------
    silence_cycles
        A power of two, longer than the time of a byte: no gap within a frame may be as long.

    Members
    -------
    i : ``In(stream.Signature(received_byte(), always_ready=True))``, at most every 4 cycles.
    request : ``Out(stream.Signature(request_layout()))``
    payload_address : ``In``; payload_data : ``Out(8)``, `PAYLOAD_LATENCY_CYCLES` later. The payload
        of the offered request.
    """

    def __init__(self, *, silence_cycles: int) -> None:
        if silence_cycles < 2 or silence_cycles & (silence_cycles - 1):
            raise ValueError(f"silence_cycles must be a power of two, not {silence_cycles!r}")
        self._silence_cycles = silence_cycles
        super().__init__(
            {
                "i": In(stream.Signature(received_byte(), always_ready=True)),
                "request": Out(stream.Signature(request_layout())),
                "payload_address": In(range(MAX_PAYLOAD_BYTES)),
                "payload_data": Out(8),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        m.submodules.crc = crc = CRC32_ISO_HDLC(data_width=8).create()
        m.submodules.buffer = buffer = BlockRam(
            depth=MAX_HELD_REQUESTS * MAX_PAYLOAD_BYTES, width=8
        )
        arriving_half, offered_half = Signal(), Signal()
        m.d.comb += [
            buffer.read_enable.eq(1),
            buffer.read_row.eq(Cat(self.payload_address, offered_half)),
            self.payload_data.eq(buffer.read_data),
        ]

        # Bytes are registered: decisions about a byte take a cycle of their own.
        byte = Signal.like(self.i.payload, reset_less=True)
        arrived = Signal()
        m.d.sync += [byte.eq(self.i.payload), arrived.eq(self.i.valid)]

        header = Signal(8 * _HEADER_BYTES, reset_less=True)
        fields = Signal(data.StructLayout(_HEADER))
        bytes_left = Signal(range(MAX_PAYLOAD_BYTES + 1))
        position = Signal(range(MAX_PAYLOAD_BYTES))
        m.d.comb += [
            fields.eq(header),
            buffer.write_row.eq(Cat(position, arriving_half)),
            buffer.write_data.eq(byte.data),
        ]

        m.d.comb += [crc.data.eq(byte.data), crc.valid.eq(arrived)]
        silent = self._silence(m, arrived)
        wrong = (arrived & byte.broken) | silent

        def collect(state: str, then: str) -> None:
            """Receive `bytes_left` bytes, then go to state `then`."""
            with m.State(state):
                with m.If(arrived):
                    m.d.sync += bytes_left.eq(bytes_left - 1)
                    with m.If(bytes_left == 1):
                        m.next = then
                with m.If(wrong):
                    m.next = "IGNORE"

        with m.FSM() as fsm:
            with m.State("SYNC"):
                m.d.comb += crc.start.eq(1)
                m.d.sync += [bytes_left.eq(_HEADER_BYTES), position.eq(0)]
                with m.If(arrived):
                    m.next = "HEADER"
                    with m.If(byte.broken | (byte.data != REQUEST_SYNC)):
                        m.next = "IGNORE"
            collect("HEADER", then="DECIDE")
            with m.State("DECIDE"):
                m.d.sync += bytes_left.eq(fields["count"])
                m.next = "END"
                with m.If(self._has_payload(fields)):
                    m.next = "PAYLOAD"
                    with m.If(fields["count"] > MAX_PAYLOAD_BYTES):
                        m.next = "IGNORE"
            collect("PAYLOAD", then="END")
            with m.State("END"):
                m.d.sync += bytes_left.eq(CRC_BYTES)
                m.next = "CRC"
            collect("CRC", then="CHECK")
            with m.State("CHECK"):
                m.next = "OFFER"
                with m.If(~crc.match_detected):
                    m.next = "IGNORE"
            with m.State("IGNORE"):
                with m.If(silent):
                    m.next = "OFFER DAMAGED"
            for state in ("OFFER", "OFFER DAMAGED"):
                with m.State(state):
                    with m.If(~self.request.valid):
                        m.d.sync += [
                            self.request.valid.eq(1),
                            self.request.payload.damaged.eq(state == "OFFER DAMAGED"),
                            *(self.request.payload[name].eq(fields[name]) for name in _HEADER),
                            offered_half.eq(arriving_half),
                            arriving_half.eq(~arriving_half),
                        ]
                        m.next = "SYNC"
        with m.If(self.request.valid & self.request.ready):
            m.d.sync += self.request.valid.eq(0)
        with m.If(arrived & fsm.ongoing("HEADER")):
            m.d.sync += header.eq(Cat(header[8:], byte.data))
        with m.If(arrived & fsm.ongoing("PAYLOAD")):
            m.d.comb += buffer.write_enable.eq(1)
            m.d.sync += position.eq(position + 1)
        return m

    def _has_payload(self, fields: data.View) -> Value:
        """Whether bytes follow the header of such a request."""
        ops = [fields.op == op for op in Op if op.has_payload]
        return Cat(ops).any() & (fields["count"] != 0)

    def _silence(self, m: Module, arrived: Signal) -> Signal:
        """Whether no byte has arrived for `silence_cycles`."""
        top = self._silence_cycles.bit_length() - 1
        count = Signal(top + 1)
        with m.If(arrived):
            m.d.sync += count.eq(0)
        with m.Elif(~count[top]):
            m.d.sync += count.eq(count + 1)
        silent = Signal()
        m.d.comb += silent.eq(count[top] & ~arrived)
        return silent
