"""Strided transfers -> requests, one per row of memory: what LOAD and STORE share.

Input: a stream of transfers (start address, planes, rows, strides). Output: a stream of requests
for the masters, each marked when it is the last of its transfer.
"""

from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.countdown import Countdown
from daedal.hw.interfaces import read_request
from daedal.hw.layouts import word_address_bits
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


def transfer_layout(variant: Variant) -> data.StructLayout:
    """A transfer of `blocks` planes of `rows` rows of `beats` bus words; none of them is 0.

    `one_row` and `one_block` say that there is just one of them.
    """
    count = _count_bits(variant)
    request = read_request(variant).members["payload"].shape
    return data.StructLayout(
        {
            "address": word_address_bits(variant),
            "beats": request["beats"].shape,
            "blocks": count,
            "rows": count,
            "one_row": 1,
            "one_block": 1,
            "row_stride": instruction_layout(variant, Opcode.LOAD)["row_stride_beats"].width,
            "block_stride": instruction_layout(variant, Opcode.LOAD)["block_stride_beats"].width,
        }
    )


def strided_request_layout(variant: Variant) -> data.StructLayout:
    """A request, and whether it is the last of its transfer."""
    request = read_request(variant).members["payload"].shape
    return data.StructLayout({"request": request, "last": 1})


class TransferHead:
    """Of the instruction at hand: what is worked out as it comes, and the transfer it asks for.

    Parameters
    ----------
    variant
        Gives the widths.
    """

    def __init__(self, variant: Variant) -> None:
        self._address = Signal(word_address_bits(variant), name="address", reset_less=True)
        self._one_row, self._one_block = (
            Signal(reset_less=True),
            Signal(name="one_block", reset_less=True),
        )

    def take(self, incoming: data.View, base_address: data.View) -> list[Any]:
        """Statements of the cycle that takes the fields of an instruction."""
        return [
            self._address.eq(base_address[incoming.base] + incoming.offset_beats),
            self._one_row.eq(incoming.rows == 1),
            self._one_block.eq(incoming.blocks == 1),
        ]

    def show(self, transfer: data.View, fields: data.View, beats: Value) -> list[Any]:
        """Statements that drive a transfer by the fields taken; a row has `beats` bus words."""
        return [
            transfer.address.eq(self._address),
            transfer.beats.eq(beats),
            transfer.blocks.eq(fields.blocks),
            transfer.rows.eq(fields.rows),
            transfer.one_row.eq(self._one_row),
            transfer.one_block.eq(self._one_block),
            transfer.row_stride.eq(fields.row_stride_beats),
            transfer.block_stride.eq(fields.block_stride_beats),
        ]


class StridedRequests(wiring.Component):
    """Walk over the rows of transfers, one request per cycle, without a gap between transfers.

    Row ``r`` of plane ``b`` starts at word ``address + b * block_stride + r * row_stride``, modulo
    the address space.

    Parameters
    ----------
    variant
        Gives the widths.

    Members
    -------
    i : ``In(stream.Signature(transfer_layout(variant)))``
    o : ``Out(stream.Signature(strided_request_layout(variant)))``, straight from registers.
    """

    def __init__(self, *, variant: Variant) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(transfer_layout(variant))),
                "o": Out(stream.Signature(strided_request_layout(variant))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        active = Signal()
        transfer = Signal.like(self.i.payload, reset_less=True)
        row_address = Signal.like(transfer.address, reset_less=True)
        block_address = Signal.like(transfer.address, reset_less=True)
        rows = Countdown(len(transfer.rows), name="rows")
        blocks = Countdown(len(transfer.blocks), name="blocks")

        last = Signal(reset_less=True)
        # Both sums from registers: the choice between them comes after the carries.
        next_row, next_block = Signal.like(row_address), Signal.like(block_address)
        m.d.comb += [
            next_row.eq(row_address + transfer.row_stride),
            next_block.eq(block_address + transfer.block_stride),
            self.o.valid.eq(active),
            self.o.payload.request.address.eq(row_address),
            self.o.payload.request.beats.eq(transfer.beats),
            self.o.payload.last.eq(last),
            self.i.ready.eq(~active | (self.o.ready & last)),
        ]
        with m.If(self.o.ready):
            m.d.sync += [row_address.eq(next_row), last.eq(rows.last_but_one & blocks.last)]
            rows.step(m)
            with m.If(rows.last):
                m.d.sync += [
                    row_address.eq(next_block),
                    block_address.eq(next_block),
                    last.eq(transfer.one_row & blocks.last_but_one),
                ]
                rows.load(m, transfer.rows, one=transfer.one_row)
                blocks.step(m)
        with m.If(self.i.ready):
            m.d.sync += [
                active.eq(self.i.valid),
                transfer.eq(self.i.payload),
                row_address.eq(self.i.payload.address),
                block_address.eq(self.i.payload.address),
                last.eq(self.i.payload.one_row & self.i.payload.one_block),
            ]
            rows.load(m, self.i.payload.rows, one=self.i.payload.one_row)
            blocks.load(m, self.i.payload.blocks, one=self.i.payload.one_block)
        return m
