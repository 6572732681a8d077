"""Strided transfers -> requests, one per row of memory: what LOAD and STORE share.

Input: a stream of transfers (start address, planes, rows, strides). Output: a stream of requests
for the masters, each marked when it is the last of its transfer; no request leaves its region.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import contract
from daedal.hw.family import Platform
from daedal.hw.interfaces import read_request
from daedal.hw.layouts import INDEX_BITS, request_beats_bits, word_address_bits
from daedal.hw.parts.countdown import Countdown
from daedal.isa.table import BitField, Opcode, instruction_layout
from daedal.isa.variant import Variant

__all__ = [
    "StridedRequests",
    "TransferHead",
    "strided_request_layout",
    "transfer_layout",
]


def _count_bits(variant: Variant) -> int:
    def widest(fields: dict[str, BitField]) -> int:
        return max(fields[name].width for name in ("blocks", "rows", "cols"))

    return max(
        widest(instruction_layout(variant, opcode)) for opcode in (Opcode.LOAD, Opcode.STORE)
    )


def _room_bits(variant: Variant) -> int:
    """Width of the signed number of words between the end of a row and the end of its region.

    It is a region's size (less than the address space) minus an offset and a row. The walk stops at
    the first negative value.
    """
    offset = instruction_layout(variant, Opcode.LOAD)["offset_beats"].width
    return max(word_address_bits(variant), offset, request_beats_bits(variant)) + 2


def transfer_layout(variant: Variant) -> data.StructLayout:
    """A transfer of `blocks` planes of `rows` rows of `beats` bus words; none of them is 0.

    `room` is the number of words between the end of the first row and the end of its region,
    negative where the row is not inside. `one_row` and `one_block`: there is exactly one row per
    plane, exactly one plane. `index` is the instruction's.
    """
    count = _count_bits(variant)
    request = read_request(variant).members["payload"].shape
    return data.StructLayout(
        {
            "address": word_address_bits(variant),
            "room": signed(_room_bits(variant)),
            "beats": request["beats"].shape,
            "blocks": count,
            "rows": count,
            "one_row": 1,
            "one_block": 1,
            "row_stride": instruction_layout(variant, Opcode.LOAD)["row_stride_beats"].width,
            "block_stride": instruction_layout(variant, Opcode.LOAD)["block_stride_beats"].width,
            "index": INDEX_BITS,
        }
    )


def strided_request_layout(variant: Variant) -> data.StructLayout:
    """A request, and whether it is the last of its transfer."""
    request = read_request(variant).members["payload"].shape
    return data.StructLayout({"request": request, "last": 1})


class TransferHead:
    """The current instruction: values derived when it is accepted, and its transfer.

    Parameters
    ----------
    variant
        Gives the widths.
    """

    def __init__(self, variant: Variant) -> None:
        self._address = Signal(word_address_bits(variant), name="address", reset_less=True)
        # Words from the first row to the end of the region.
        self._behind = Signal(signed(_room_bits(variant)), name="behind", reset_less=True)
        self._one_row, self._one_block = (
            Signal(reset_less=True),
            Signal(name="one_block", reset_less=True),
        )

    def take(
        self, incoming: data.View, base_address: data.View, region_words: data.View
    ) -> list[Any]:
        """Statements for the cycle in which an instruction is accepted."""
        return [
            self._address.eq(base_address[incoming.base] + incoming.offset_beats),
            self._behind.eq(region_words[incoming.base] - incoming.offset_beats),
            self._one_row.eq(incoming.rows == 1),
            self._one_block.eq(incoming.blocks == 1),
        ]

    def show(self, transfer: data.View, head: data.View, beats: Value) -> list[Any]:
        """Statements that drive `transfer` from the accepted `head`, with rows of `beats` words."""
        fields = head.instruction
        return [
            transfer.address.eq(self._address),
            transfer.room.eq(self._behind - beats),
            transfer.beats.eq(beats),
            transfer.blocks.eq(fields.blocks),
            transfer.rows.eq(fields.rows),
            transfer.one_row.eq(self._one_row),
            transfer.one_block.eq(self._one_block),
            transfer.row_stride.eq(fields.row_stride_beats),
            transfer.block_stride.eq(fields.block_stride_beats),
            transfer.index.eq(head.index),
        ]


class StridedRequests(wiring.Component):
    """Walk over the rows of transfers, one request per cycle, without a gap between transfers.

    Row ``r`` of plane ``b`` starts at word ``address + b * block_stride + r * row_stride``, modulo
    the address space. `room`, the words left in the region after the row, decreases by as much as
    the address increases. Strides are unsigned, so a negative `room` means that the row is not
    inside the region, even if its address has wrapped; the walk then stops until it is reset.

    Parameters
    ----------
    variant
        Gives the widths.

    Members
    -------
    i : ``In(stream.Signature(transfer_layout(variant)))``
    o : ``Out(stream.Signature(strided_request_layout(variant)))``, registered outputs.
    beyond, index : ``Out(1)``, ``Out(INDEX_BITS)``
        The current row is not inside its region: it is not offered, and no row follows. `index` is
        its instruction's. Registered outputs.
    """

    def __init__(self, *, variant: Variant) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(transfer_layout(variant))),
                "o": Out(stream.Signature(strided_request_layout(variant))),
                "beyond": Out(1),
                "index": Out(INDEX_BITS),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        active = Signal()
        transfer = Signal.like(self.i.payload, reset_less=True)
        row_address = Signal.like(transfer.address, reset_less=True)
        block_address = Signal.like(transfer.address, reset_less=True)
        row_room = Signal.like(transfer.room, reset_less=True)
        block_room = Signal.like(transfer.room, reset_less=True)
        rows = Countdown(len(transfer.rows), name="rows")
        blocks = Countdown(len(transfer.blocks), name="blocks")

        last = Signal(reset_less=True)
        # Both sums are computed from registers; the mux comes after the carry chains.
        next_row, next_block = Signal.like(row_address), Signal.like(block_address)
        next_row_room, next_block_room = Signal.like(row_room), Signal.like(block_room)
        outside = Mux(rows.last, next_block_room[-1], next_row_room[-1])
        m.d.comb += [
            next_row.eq(row_address + transfer.row_stride),
            next_block.eq(block_address + transfer.block_stride),
            next_row_room.eq(row_room - transfer.row_stride),
            next_block_room.eq(block_room - transfer.block_stride),
            self.o.valid.eq(active),
            self.o.payload.request.address.eq(row_address),
            self.o.payload.request.beats.eq(transfer.beats),
            self.o.payload.last.eq(last),
            self.i.ready.eq(~(active | self.beyond) | (active & self.o.ready & last)),
            self.index.eq(transfer.index),
        ]
        with m.If(self.o.ready):
            m.d.sync += [
                row_address.eq(next_row),
                row_room.eq(next_row_room),
                last.eq(rows.last_but_one & blocks.last),
            ]
            rows.step(m)
            with m.If(rows.last):
                m.d.sync += [
                    row_address.eq(next_block),
                    block_address.eq(next_block),
                    row_room.eq(next_block_room),
                    block_room.eq(next_block_room),
                    last.eq(transfer.one_row & blocks.last_but_one),
                ]
                rows.load(m, transfer.rows, one=transfer.one_row)
                blocks.step(m)
            with m.If(active):
                m.d.sync += [active.eq(~outside), self.beyond.eq(outside)]
        with m.If(self.i.ready):
            m.d.sync += [
                active.eq(self.i.valid & ~self.i.payload.room[-1]),
                self.beyond.eq(self.i.valid & self.i.payload.room[-1]),
                transfer.eq(self.i.payload),
                row_address.eq(self.i.payload.address),
                block_address.eq(self.i.payload.address),
                row_room.eq(self.i.payload.room),
                block_room.eq(self.i.payload.room),
                last.eq(self.i.payload.one_row & self.i.payload.one_block),
            ]
            rows.load(m, self.i.payload.rows, one=self.i.payload.one_row)
            blocks.load(m, self.i.payload.blocks, one=self.i.payload.one_block)
        given = self.i.payload
        some = (given.beats != 0) & (given.rows != 0) & (given.blocks != 0)
        flags = (given.one_row == (given.rows == 1)) & (given.one_block == (given.blocks == 1))
        contract(m, platform, ~self.i.valid | some, "an empty transfer must never be given")
        contract(m, platform, ~self.i.valid | flags, "flags must say what the counts do")
        return m
