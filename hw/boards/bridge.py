"""The bridge: executes the host's requests as accesses to registers and memory, and answers.

Input: requests of `FrameReceiver`. Output: accesses to the machine's registers and to memory, and
answers for `FrameSender`. `common.bridge` defines the frames.
"""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.crc.catalog import CRC64_XZ
from amaranth.lib.wiring import In, Out

from daedal.common.bridge import (
    BLOCK_BYTES,
    CHECKSUM_BYTES,
    IDENTITY_FIELDS,
    MAX_PAYLOAD_BYTES,
    PROTOCOL_VERSION,
    Identity,
    Op,
    Status,
)
from daedal.hw.boards.frame_receiver import PAYLOAD_LATENCY_CYCLES, request_layout
from daedal.hw.boards.frame_sender import answer_layout
from daedal.hw.boards.memory_port import host_access
from daedal.hw.boards.register_master import register_access
from daedal.hw.family import Platform
from daedal.hw.pipeline import register
from daedal.isa.registers import CONTROL_ADDRESS_BITS
from daedal.isa.variant import Variant

__all__ = ["RESET_CYCLES", "Bridge"]

RESET_CYCLES = 16
"""Duration of RESET; one cycle is enough for the machine (docs/hardware.md)."""

_REGISTER_BYTES = 4

_BLOCK_SHIFT = (BLOCK_BYTES // CHECKSUM_BYTES).bit_length() - 1
"""From bytes of checksums to bytes of their blocks."""


class Bridge(wiring.Component):
    """Execute one request at a time; every request gets exactly one answer.

    A refused or damaged request has no effect. A single-register request that equals the one
    executed last (tag, operation, address and value) is a retry after a lost answer: the previous
    answer is repeated and the access is not, because accesses to some registers are not idempotent.
    A refused request in between shows that the host has gone on, so nothing is a retry after it.
    All other requests may be executed again.

    Parameters
    ----------
    variant
        The machine's bus widths.
    num_words
        Bus words of memory, from byte address 0 on.
    clock_hz
        The machine's clock, for IDENTIFY.

    Members
    -------
    request : ``In(stream.Signature(request_layout()))``, accepted when its answer was sent.
    payload_address, payload_data : the buffer of the request's payload.
    answer : ``Out(stream.Signature(answer_layout()))``
    answer_payload : ``Out(stream.Signature(8))``
    registers : ``Out(register_access())``
    memory : ``Out(host_access(variant, num_words))``
    memory_test, failing_address : ``In``, for IDENTIFY.
    machine_reset : ``Out(1)``, for the machine and for memory's logic together.
    """

    def __init__(self, *, variant: Variant, num_words: int, clock_hz: int) -> None:
        self._lane_bits = variant.word_offset_bits
        self._identity = Identity(
            PROTOCOL_VERSION, MAX_PAYLOAD_BYTES, num_words * variant.bus_bytes, clock_hz
        )
        super().__init__(
            {
                "request": In(stream.Signature(request_layout())),
                "payload_address": Out(range(MAX_PAYLOAD_BYTES)),
                "payload_data": In(8),
                "answer": Out(stream.Signature(answer_layout())),
                "answer_payload": Out(stream.Signature(8)),
                "registers": Out(register_access()),
                "memory": Out(host_access(variant, num_words)),
                "memory_test": In(8 * IDENTITY_FIELDS["memory_test"]),
                "failing_address": In(8 * IDENTITY_FIELDS["failing_address"]),
                "machine_reset": Out(1),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        request, answer = self.request.payload, self.answer.payload
        state = _State(self)
        m.d.sync += [self.memory.valid.eq(0), self.machine_reset.eq(0)]
        m.d.comb += [
            answer.tag.eq(request.tag),
            self.payload_address.eq(state.position),
            self.registers.address.eq(state.address),
            self.registers.write_data.eq(state.value),
            self.answer_payload.payload.eq(state.byte),
            self.memory.address.eq(state.address[self._lane_bits :]),
            self.memory.data.eq(state.word),
            self.memory.strobes.eq(state.strobes),
        ]
        with m.If(self.answer.ready):
            m.d.sync += self.answer.valid.eq(0)
        self._compare(m, state)
        with m.FSM():
            self._begin(m, state)
            self._decide(m, state)
            self._registers(m, state)
            self._read_word(m, state, "READ WORD", "SEND BYTE")
            self._write_memory(m, state)
            self._sum_blocks(m, state)
            self._send(m, state)
            with m.State("RESET"):
                m.d.sync += [self.machine_reset.eq(1), state.pause.eq(state.pause - 1)]
                with m.If(state.pause == 0):
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.sync += self.answer.valid.eq(1)
                m.next = "FINISH"
            with m.State("FINISH"):
                with m.If(~self.answer.valid):
                    m.d.comb += self.request.ready.eq(1)
                    m.next = "REST"
        return m

    def _compare(self, m: Module, state: "_State") -> None:
        """Check the request's fields against the limits, one pipeline step per cycle."""
        request = self.request.payload
        count = request["count"]
        end = Signal(33, reset_less=True)
        end_of_blocks = Signal(33, reset_less=True)
        m.d.sync += [
            end.eq(request.address + count),
            end_of_blocks.eq(request.address + (count << _BLOCK_SHIFT)),
            state.beyond_blocks.eq(end_of_blocks > self._identity.memory_bytes),
            state.beyond_memory.eq(end > self._identity.memory_bytes),
            state.beyond_registers.eq(end > 1 << CONTROL_ADDRESS_BITS),
            state.too_long.eq(count > MAX_PAYLOAD_BYTES),
            state.is_single.eq(count == _REGISTER_BYTES),
            state.is_again.eq(state.may_come_again & (_header_of(request) == state.last)),
        ]

    def _begin(self, m: Module, state: "_State") -> None:
        """Wait for a request, then for its comparisons."""
        request = self.request.payload
        with m.State("REST"):
            m.d.sync += [
                state.address.eq(request.address),
                state.left.eq(request["count"]),
                state.position.eq(0),
                state.strobes.eq(0),
            ]
            with m.If(self.request.valid):
                m.next = "ADD"
        with m.State("ADD"):
            m.next = "COMPARE"
        with m.State("COMPARE"):
            m.next = "DECIDE"

    def _decide(self, m: Module, state: "_State") -> None:
        request, answer = self.request.payload, self.answer.payload
        count = request["count"]

        def reply(status: Status, then: str = "ANSWER", payload_bytes: Any = 0) -> None:
            """Send an answer with payload from now on; any other when the request is done."""
            if status not in (Status.OK, Status.DAMAGED):
                m.d.sync += state.may_come_again.eq(0)
            m.d.sync += [
                answer.status.eq(status),
                answer["count"].eq(payload_bytes),
                self.answer.valid.eq(payload_bytes != 0),
            ]
            m.next = then

        def carry_out(then: str, payload_bytes: Any = 0, *, single: Any = 0) -> None:
            m.d.sync += [state.may_come_again.eq(single), state.last.eq(_header_of(request))]
            reply(Status.OK, then, payload_bytes)

        def access_registers(then: str, again: str, payload_bytes: Any) -> None:
            with m.If(request.address[:2].any() | state.beyond_registers):
                reply(Status.BAD_ADDRESS)
            with m.Elif(state.too_long | count[:2].any() | (count == 0)):
                reply(Status.BAD_COUNT)
            with m.Elif(state.is_single & state.is_again):
                reply(Status.OK, again, payload_bytes)
            with m.Else():
                carry_out(then, payload_bytes, single=state.is_single)
            m.d.sync += state.repeats.eq(state.is_single & state.is_again)

        def access_memory(
            then: str,
            payload_bytes: Any,
            beyond: Value = state.beyond_memory,
            uneven: Value | None = None,
        ) -> None:
            with m.If(beyond):
                reply(Status.BAD_ADDRESS)
            with m.Elif(state.too_long if uneven is None else state.too_long | uneven):
                reply(Status.BAD_COUNT)
            with m.Else():
                carry_out(then, payload_bytes)
                with m.If(count == 0):
                    m.next = "ANSWER"

        with m.State("DECIDE"):
            with m.If(request.damaged):
                reply(Status.DAMAGED)
            with m.Else():
                with m.Switch(request.op):
                    with m.Case(Op.IDENTIFY):
                        size = len(self._identity.encode())
                        m.d.sync += state.left.eq(size)
                        carry_out("SEND IDENTITY", size)
                    with m.Case(Op.READ_REGISTERS):
                        access_registers("READ REGISTER", "SEND REGISTER", count)
                    with m.Case(Op.WRITE_REGISTERS):
                        access_registers("FETCH REGISTER", "FETCH REGISTER", 0)
                    with m.Case(Op.READ_MEMORY):
                        access_memory("READ WORD", count)
                    with m.Case(Op.WRITE_MEMORY):
                        access_memory("FETCH BYTE", 0)
                    with m.Case(Op.CHECKSUMS):
                        inside = request.address[: BLOCK_BYTES.bit_length() - 1].any()
                        uneven = count[: CHECKSUM_BYTES.bit_length() - 1].any()
                        access_memory("SUM BLOCK", count, state.beyond_blocks | inside, uneven)
                    with m.Case(Op.RESET):
                        m.d.sync += state.pause.eq(RESET_CYCLES - 1)
                        carry_out("RESET")
                    with m.Default():
                        reply(Status.UNKNOWN_OP)

    def _registers(self, m: Module, state: "_State") -> None:
        lane = state.position[:2]
        self._fetch(m, state, "FETCH REGISTER", "GATHER REGISTER")
        with m.State("GATHER REGISTER"):
            repeats = Signal()  # bytes of the value that was written last leave as new ones come
            m.d.comb += repeats.eq(state.repeats & (self.payload_data == state.value[:8]))
            m.d.sync += [
                state.value.eq(Cat(state.value[8:], self.payload_data)),
                state.repeats.eq(repeats),
                state.position.eq(state.position + 1),
                state.left.eq(state.left - 1),
            ]
            m.next = "FETCH REGISTER"
            with m.If(lane == _REGISTER_BYTES - 1):
                m.next = "WRITE REGISTER"
                with m.If(repeats):
                    m.next = "ANSWER"
        with m.State("WRITE REGISTER"):
            m.d.comb += [self.registers.valid.eq(1), self.registers.write.eq(1)]
            with m.If(self.registers.done):
                m.d.sync += state.address.eq(state.address + _REGISTER_BYTES)
                m.next = "FETCH REGISTER"
                with m.If(state.left == 0):
                    m.next = "ANSWER"
        with m.State("READ REGISTER"):
            m.d.comb += self.registers.valid.eq(1)
            with m.If(self.registers.done):
                m.d.sync += [
                    state.address.eq(state.address + _REGISTER_BYTES),
                    state.value.eq(self.registers.read_data),
                ]
                m.next = "SEND REGISTER"

    def _read_word(self, m: Module, state: "_State", name: str, then: str) -> None:
        """State `name`: fetch the word at `address`, available in state `then`."""
        with m.State(name):
            with m.If(self.memory.ready):
                m.d.sync += self.memory.valid.eq(1)
                m.next = f"{name} COMES"
        with m.State(f"{name} COMES"):
            with m.If(self.memory.word_valid):
                m.d.sync += state.word.eq(self.memory.word)
                m.next = then

    def _write_memory(self, m: Module, state: "_State") -> None:
        lane = state.address[: self._lane_bits]
        self._fetch(m, state, "FETCH BYTE", "GATHER BYTE")
        with m.State("GATHER BYTE"):
            m.d.sync += [
                state.word.word_select(lane, 8).eq(self.payload_data),
                state.strobes.bit_select(lane, 1).eq(1),
                state.position.eq(state.position + 1),
                state.left.eq(state.left - 1),
            ]
            with m.If(lane.all() | (state.left == 1)):
                m.next = "WRITE WORD"
            with m.Else():
                m.d.sync += state.address.eq(state.address + 1)
                m.next = "FETCH BYTE"
        with m.State("WRITE WORD"):
            with m.If(self.memory.ready):
                m.d.sync += self.memory.valid.eq(1)
                m.next = "END WORD"
        with m.State("END WORD"):
            m.d.sync += [state.strobes.eq(0), state.address.eq(state.address + 1)]
            m.next = "FETCH BYTE"
            with m.If(state.left == 0):
                m.next = "WAIT FOR MEMORY"
        with m.State("WAIT FOR MEMORY"):
            with m.If(self.memory.ready):
                m.next = "ANSWER"

    def _sum_blocks(self, m: Module, state: "_State") -> None:
        """CRC-64/XZ of each block, one byte per cycle of every word."""
        m.submodules.sum = crc = CRC64_XZ(data_width=8).create()
        m.d.comb += crc.data.eq(state.word[:8])
        with m.State("SUM BLOCK"):
            m.d.comb += crc.start.eq(1)
            m.next = "SUM WORD"
        self._read_word(m, state, "SUM WORD", "SUM BYTE")
        with m.State("SUM BYTE"):
            m.d.comb += crc.valid.eq(1)
            m.d.sync += [state.word.eq(state.word >> 8), state.address.eq(state.address + 1)]
            with m.If(state.address[: self._lane_bits].all()):
                m.next = "END SUM WORD"
        with m.State("END SUM WORD"):
            m.d.sync += state.sum.eq(crc.crc)
            m.next = "SUM WORD"
            with m.If(~state.address[: BLOCK_BYTES.bit_length() - 1].any()):
                m.next = "SEND SUM"

    def _fetch(self, m: Module, state: "_State", name: str, then: str) -> None:
        """State `name`: fetch the payload byte at `position`, available in state `then`."""
        stages = [name, *(f"{name} {number}" for number in range(1, PAYLOAD_LATENCY_CYCLES))]
        for stage, after in zip(stages, [*stages[1:], then], strict=True):
            with m.State(stage):
                m.next = after

    def _send(self, m: Module, state: "_State") -> None:
        """Payload bytes of answers: a registered mux, then the output register."""
        lanes = Array(state.word.word_select(n, 8) for n in range(1 << self._lane_bits))
        changing = (self.memory_test, self.failing_address)
        fixed = self._identity.encode()[: -sum(len(item) for item in changing) // 8]
        described = Cat(*(Const(byte, 8) for byte in fixed), *changing)
        identity = Array(described.word_select(at, 8) for at in range(len(described) // 8))
        lane = state.address[: self._lane_bits]
        rotated = Cat(state.value[8:], state.value[:8])  # as it was, after four bytes
        choices = {
            "REGISTER": (state.value[:8], state.value.eq(rotated), state.position[:2].all()),
            "BYTE": (lanes[lane], state.address.eq(state.address + 1), lane.all()),
            "SUM": (
                state.sum[:8],
                state.sum.eq(state.sum >> 8),
                state.position[: CHECKSUM_BYTES.bit_length() - 1].all(),
            ),
            "IDENTITY": (identity[state.position], [], Const(0)),
        }
        next_word = {
            "REGISTER": "READ REGISTER",
            "BYTE": "READ WORD",
            "SUM": "SUM BLOCK",
            "IDENTITY": "FINISH",
        }
        for name, (byte, advance, ends_word) in choices.items():
            picked = register(m, byte, name=f"picked_{name.lower()}")
            with m.State(f"SEND {name}"):
                m.next = f"PICK {name}"
            with m.State(f"PICK {name}"):
                m.d.sync += state.byte.eq(picked)
                m.next = f"OFFER {name}"
            with m.State(f"OFFER {name}"):
                m.d.comb += self.answer_payload.valid.eq(1)
                with m.If(self.answer_payload.ready):
                    m.d.sync += [
                        advance,
                        state.position.eq(state.position + 1),
                        state.left.eq(state.left - 1),
                    ]
                    m.next = f"SEND {name}"
                    with m.If(ends_word):
                        m.next = next_word[name]
                    with m.If(state.left == 1):
                        m.next = "FINISH"


class _State:
    """Registers of the bridge: the current request, and what a retry needs."""

    def __init__(self, bridge: Bridge) -> None:
        self.address = Signal(32, reset_less=True)
        self.left = Signal(range(MAX_PAYLOAD_BYTES + 1), reset_less=True)
        self.position = Signal(range(MAX_PAYLOAD_BYTES), reset_less=True)
        self.word = Signal.like(bridge.memory.data, reset_less=True)
        self.strobes = Signal.like(bridge.memory.strobes)
        self.value = Signal(32, reset_less=True)
        self.sum = Signal(8 * CHECKSUM_BYTES, reset_less=True)
        self.byte = Signal(8, reset_less=True)
        self.pause = Signal(range(RESET_CYCLES))
        self.beyond_memory = Signal()
        self.beyond_blocks = Signal()
        self.beyond_registers = Signal()
        self.too_long = Signal()
        self.is_single = Signal()
        self.is_again = Signal()
        self.repeats = Signal()
        self.may_come_again = Signal()
        self.last = Signal.like(_header_of(bridge.request.payload))


def _header_of(request: data.View) -> Value:
    """What tells a request for one register from another, but for the value to write. Its address
    is known to be that of a register."""
    return Cat(request.tag, request.op, request.address[2:CONTROL_ADDRESS_BITS])
