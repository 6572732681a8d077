"""Signatures between the units of the machine: the one definition of every wire bundle.

Rules that hold for all of them:

1. A `stream.Signature` keeps valid and payload until ready; valid never waits for ready.
2. `retire` and `error` are pulses: the receiver always accepts them.
3. `activity` is what the unit does in the current cycle; `gate.IssueGate` turns it into one
   `isa.registers.CycleClass` per cycle, which the counters count.
"""

from amaranth.hdl import ShapeLike, signed
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.layouts import (
    INDEX_BITS,
    issue_layout,
    request_beats_bits,
    retire_layout,
    row_bits,
    word_address_bits,
)
from daedal.isa.scratchpad import TABLE_ENTRY_BITS, Memory, scratchpad, scratchpads
from daedal.isa.table import Opcode, instruction_layout
from daedal.isa.variant import Variant

__all__ = [
    "Activity",
    "accumulator_ports",
    "error_signature",
    "fill_signature",
    "lookup_signature",
    "out_write_signature",
    "pad_signature",
    "pulse",
    "read_request",
    "read_word",
    "row_mask_write",
    "scratchpad_read_signature",
    "unit_signature",
    "write_response",
]


class Activity(enum.Enum, shape=2):
    """What a unit does in a cycle.

    BUSY: it moves or computes something. STALL: it has work, but waits for memory, the bus or a
    scratchpad port. DRAIN: nothing left to start, results still in flight. NONE: empty.
    """

    NONE = 0
    DRAIN = 1
    STALL = 2
    BUSY = 3


def error_signature() -> wiring.Signature:
    """A pulse: error code (`isa.registers.ErrorCode`) and the index of the instruction."""
    return wiring.Signature({"valid": Out(1), "code": Out(8), "index": Out(INDEX_BITS)})


def unit_signature(variant: Variant, opcode: Opcode) -> dict[str, wiring.Member]:
    """Ports that LOAD, GEMM, ALU and STORE have in common.

    `issue` delivers the next instruction, whose tokens are already taken. `retire` pulses once per
    instruction, in order, when all its effects are visible to every unit; later instructions may
    already run. `work` is the amount of the unit's work (`isa.registers`) in the current cycle.
    """
    return {
        "issue": In(stream.Signature(issue_layout(variant, opcode))),
        "retire": Out(wiring.Signature({"valid": Out(1), "payload": Out(retire_layout())})),
        "activity": Out(Activity),
        "work": Out(1),
        "error": Out(error_signature()),
    }


def fill_signature(variant: Variant) -> stream.Signature:
    """LOAD writes scratchpads: one bus word at `beat` within `row`, or (pad) the whole row.

    `memory` is an `isa.table.LoadMemory` code. With `pad`, every bus word of the row becomes
    `data`, which LOAD builds from the pad value in the memory form of the elements. Only rows of
    the accumulators are padded like this; rows of INP use `pad_signature`. Only the accumulators
    may stall a fill: `into_acc` says that `memory` is ACC or ACC_NARROW.
    """
    pads = [pad for memory, pad in scratchpads(variant).items() if memory is not Memory.OUT]
    return stream.Signature(
        data.StructLayout(
            {
                "memory": instruction_layout(variant, Opcode.LOAD)["memory"].width,
                "into_acc": 1,
                "row": max(pad.index_bits for pad in pads),
                "beat": max(1, max((p.row_beats(variant) - 1).bit_length() for p in pads)),
                "pad": 1,
                "data": variant.bus.data_bits,
            }
        )
    )


def pad_signature(variant: Variant) -> wiring.Signature:
    """LOAD writes pads into INP in parallel with fills: the bus words of `row` set in `enable`.

    INP accepts them in every cycle. LOAD never enables the word that `fill` writes in the same
    cycle.
    """
    pad = scratchpad(variant, Memory.INP)
    return wiring.Signature(
        {
            "enable": Out(pad.row_beats(variant)),
            "row": Out(pad.index_bits),
            "data": Out(variant.bus.data_bits),
        }
    )


def scratchpad_read_signature(row_width: int, data_width: int) -> wiring.Signature:
    """Read port of a scratchpad: `data` follows `row` with a fixed latency.

    The latency is two cycles; for OUT and the accumulators, `isa.latencies.ACC_READ_CYCLES`.
    """
    return wiring.Signature({"enable": Out(1), "row": Out(row_width), "data": In(data_width)})


def lookup_signature(variant: Variant) -> wiring.Signature:
    """A group of REQUANTIZE's lanes at the tables: `values` follows with a fixed latency.

    With `enable`, `values` are the entries of `table` at the low 8 bits of `results`; otherwise
    they are `results`.
    The latency is `isa.latencies.LOOKUP_CYCLES`.
    """
    lanes = variant.units.requantize_lanes
    return wiring.Signature(
        {
            "enable": Out(1),
            "table": Out((variant.memory.tables - 1).bit_length()),
            "results": Out(data.ArrayLayout(signed(variant.result_bits), lanes)),
            "values": In(data.ArrayLayout(signed(TABLE_ENTRY_BITS), lanes)),
        }
    )


def row_mask_write(variant: Variant) -> data.StructLayout:
    """A write of some elements of an accumulator row (full row of data, one mask bit each)."""
    pad = scratchpad(variant, Memory.ACC)
    return data.StructLayout({"row": pad.index_bits, "mask": pad.elements, "data": pad.row_bits})


def pulse(shape: ShapeLike) -> wiring.Signature:
    """A payload with `valid` and without back-pressure."""
    return wiring.Signature({"valid": Out(1), "payload": Out(shape)})


def accumulator_ports(variant: Variant) -> dict[str, wiring.Member]:
    """Ports of the banked accumulators, seen from the accumulators.

    GEMM is never refused. It announces its reads and writes one cycle ahead: `gemm_read`, with data
    ``ACC_READ_CYCLES + 1`` after `enable`, and `gemm_write`, with data two cycles after `enable`.
    In return it must not start a product for bank b in the cycle after bit b of `gemm_hold` is set:
    a starved reader or writer of that bank gets the slot.

    The ALU (`alu_read` for its source, `alu_read2` for the destination of a register form) never
    reads two rows of one bank in a cycle. It reads no bank whose bit of `read_closed` was set in
    the previous cycle, and writes none whose bit of `write_closed` was. So it is never refused.
    `alu_wants`: the row at that port still has to be read, even if the ALU may not read it yet;
    STORE yields its bank. `alu_waits`: the access (source, destination, result) stalls in this
    cycle only because its bank is closed.

    STORE requests rows through a stream of row numbers. Each accepted read gives one `*_data` pulse
    exactly `ACC_READ_CYCLES` later. A write accepted on `alu_write` or `fill`, or announced on
    `gemm_write` in the previous cycle, is visible to every read from the next cycle on.
    """
    pad = scratchpad(variant, Memory.ACC)
    request = stream.Signature(row_bits(variant, Memory.ACC))
    answer = wiring.Signature({"valid": Out(1), "data": Out(pad.row_bits)})
    return {
        "gemm_read": In(scratchpad_read_signature(pad.index_bits, pad.row_bits)),
        "gemm_write": In(
            wiring.Signature(
                {"enable": Out(1), "row": Out(pad.index_bits), "data": Out(pad.row_bits)}
            )
        ),
        "gemm_hold": Out(variant.memory.acc_banks),
        "read_closed": Out(variant.memory.acc_banks),
        "write_closed": Out(variant.memory.acc_banks),
        "alu_wants": In(2),
        "alu_waits": In(3),
        "alu_read": In(pulse(row_bits(variant, Memory.ACC))),
        "alu_data": Out(answer),
        "alu_read2": In(pulse(row_bits(variant, Memory.ACC))),
        "alu_data2": Out(answer),
        "alu_write": In(pulse(row_mask_write(variant))),
        "store_read": In(request),
        "store_data": Out(answer),
        "fill": In(fill_signature(variant)),
    }


def out_write_signature(variant: Variant) -> wiring.Signature:
    """The ALU writes some elements of an output row: full row of data, one mask bit per element."""
    pad = scratchpad(variant, Memory.OUT)
    return wiring.Signature(
        {
            "enable": Out(1),
            "row": Out(pad.index_bits),
            "mask": Out(pad.elements),
            "data": Out(pad.row_bits),
        }
    )


def read_request(variant: Variant) -> stream.Signature:
    """A request for `beats` bus words, at least 1, from word `address`; it may cross any boundary.

    The read master splits it into INCR bursts of at most 32 beats that never cross 4 KiB, and
    reserves space for the data before it issues a burst, so RREADY never waits for a unit.
    """
    return stream.Signature(
        data.StructLayout(
            {"address": word_address_bits(variant), "beats": request_beats_bits(variant)}
        )
    )


def read_word(variant: Variant) -> stream.Signature:
    """Words in the order of the requests; `response` is the AXI RRESP of the beat."""
    return stream.Signature(data.StructLayout({"data": variant.bus.data_bits, "response": 2}))


def write_response() -> wiring.Signature:
    """A pulse: the oldest write request is complete; with the worst BRESP of its bursts."""
    return wiring.Signature({"valid": Out(1), "response": Out(2)})
