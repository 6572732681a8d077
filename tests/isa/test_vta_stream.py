"""The encoding of VTA's instructions and micro-ops, and dumps on disk."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.common.errors import ProgramError
from daedal.isa.vta.dump import VtaProgram, VtaSegment
from daedal.isa.vta.stream import (
    VtaInstruction,
    VtaMemory,
    VtaOpcode,
    VtaQueue,
    decode_stream,
    decode_uop,
    encode_stream,
    encode_uop,
)

WORDS = {
    # (first bit, value) pairs written from the description of the encoding.
    "load": (
        VtaInstruction.of(
            VtaOpcode.LOAD, pop_next=1, push_next=1, memory=VtaMemory.INP, sram_base=900,
            dram_base=0x12345678, y_size=28, x_size=30, x_stride=65535,
            y_pad_0=1, y_pad_1=2, x_pad_0=3, x_pad_1=15,
        ),
        [(4, 1), (6, 1), (7, 2), (10, 900), (26, 0x12345678), (64, 28), (80, 30), (96, 65535),
         (112, 1), (116, 2), (120, 3), (124, 15)],
    ),
    "gemm": (
        VtaInstruction.of(
            VtaOpcode.GEMM, pop_prev=1, push_prev=1, reset=1, uop_begin=8191, uop_end=8192,
            iter_out=16383, iter_in=5, dst_out=2047, dst_in=1, src_out=1024, src_in=3,
            wgt_out=1023, wgt_in=512,
        ),
        [(0, 2), (3, 1), (5, 1), (7, 1), (8, 8191), (21, 8192), (35, 16383), (49, 5), (64, 2047),
         (75, 1), (86, 1024), (97, 3), (108, 1023), (118, 512)],
    ),
    "alu": (
        VtaInstruction.of(
            VtaOpcode.ALU, uop_end=3, iter_out=1, iter_in=2, operation=4, use_immediate=1,
            immediate=-2,
        ),
        [(0, 4), (21, 3), (35, 1), (49, 2), (108, 4), (111, 1), (112, 0xFFFE)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_fields_lie_where_the_description_says(name: str) -> None:
    instruction, places = WORDS[name]
    word = sum(value << first for first, value in places)
    assert encode_stream([instruction]) == word.to_bytes(16, "little")
    assert decode_stream(word.to_bytes(16, "little")) == [instruction]


@given(st.binary(min_size=16, max_size=16))
def test_decoding_ignores_bits_without_a_field(data: bytes) -> None:
    try:
        decoded = decode_stream(data)
    except ProgramError:
        return
    assert decode_stream(encode_stream(decoded)) == decoded


def test_garbage_in_unused_bits_is_accepted() -> None:
    finish = (3 | 0xDEADBEEF << 7 | 0xFFFF << 64).to_bytes(16, "little")
    assert decode_stream(finish) == [VtaInstruction.of(VtaOpcode.FINISH)]
    load = (1 << 80 | 0x3F << 58).to_bytes(16, "little")
    assert decode_stream(load) == [VtaInstruction.of(VtaOpcode.LOAD, x_size=1)]


@given(st.integers(0, 2047), st.integers(0, 2047), st.integers(0, 1023))
def test_micro_ops_round_trip(dst: int, src: int, wgt: int) -> None:
    word = encode_uop(dst, src, wgt)
    assert int.from_bytes(word, "little") == dst | src << 11 | wgt << 22
    columns = decode_uop(np.frombuffer(word, dtype="<u4"))
    assert {name: int(column[0]) for name, column in columns.items()} == {
        "dst": dst, "src": src, "wgt": wgt,
    }  # fmt: skip


def test_queues() -> None:
    def queue(opcode: VtaOpcode, **values: int) -> VtaQueue:
        return VtaInstruction.of(opcode, **values).queue

    assert queue(VtaOpcode.LOAD, memory=VtaMemory.WGT) is VtaQueue.LOAD
    assert queue(VtaOpcode.LOAD, memory=VtaMemory.INP) is VtaQueue.LOAD
    assert queue(VtaOpcode.LOAD, memory=VtaMemory.ACC_8BIT) is VtaQueue.COMPUTE
    assert queue(VtaOpcode.LOAD, memory=VtaMemory.UOP) is VtaQueue.COMPUTE
    assert queue(VtaOpcode.GEMM) is queue(VtaOpcode.FINISH) is VtaQueue.COMPUTE
    assert queue(VtaOpcode.STORE) is VtaQueue.STORE


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (bytes(17), "must be a multiple of 16 bytes, not 17"),
        (bytes(16) + b"\5" + bytes(15), "VTA instruction 1: an opcode must be 0 to 4, not 5"),
        ((6 << 7).to_bytes(16, "little"), "LOAD.memory must be 0 to 5, not 6"),
        ((4 | 7 << 108).to_bytes(16, "little"), "ALU.operation must be 0 to 4, not 7"),
    ],
)
def test_streams_that_vta_does_not_have(data: bytes, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        decode_stream(data)


def test_values_that_do_not_fit() -> None:
    with pytest.raises(ProgramError, match=r"LOAD.y_pad_0 must fit 4 bits, not be 16"):
        encode_stream([VtaInstruction.of(VtaOpcode.LOAD, y_pad_0=16)])
    with pytest.raises(ProgramError, match=r"ALU.immediate must fit 16 bits, not be 32768"):
        encode_stream([VtaInstruction.of(VtaOpcode.ALU, immediate=32768)])
    with pytest.raises(ProgramError, match="STORE has no field 'reset'"):
        encode_stream([VtaInstruction.of(VtaOpcode.STORE, reset=1)])
    with pytest.raises(ProgramError, match="field wgt of a VTA micro-op must be 0 to 1023"):
        encode_uop(0, 0, 1024)


def dump(folder: Path, segments: str, **files: bytes) -> VtaProgram:
    for name, data in {
        "insn": encode_stream([VtaInstruction.of(VtaOpcode.FINISH)]),
        **files,
    }.items():
        (folder / f"{name}.bin").write_bytes(data)
    (folder / "segments.txt").write_text(segments)
    return VtaProgram.from_folder(folder)


def test_a_dump_is_read(tmp_path: Path) -> None:
    program = dump(
        tmp_path,
        "# comment\ninp 0x1000 4 inp.bin -\nout 0x2000 2 before.bin after.bin\n",
        inp=b"abcd",
        before=b"..",
        after=b"ok",
    )
    assert program.segments == (
        VtaSegment("inp", 0x1000, b"abcd"),
        VtaSegment("out", 0x2000, b"..", b"ok"),
    )
    assert [item.opcode for item in program.instructions] == [VtaOpcode.FINISH]


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ("inp 0x1000 4", "must be 'role address size before after'"),
        ("inp 0x1000 3 inp.bin -", "inp.bin must hold 3 bytes, not 4"),
        ("inp 0x1000 4 none.bin -", "none.bin of a VTA dump must be a readable file"),
        ("inp 0x1000 4 ../inp.bin -", "must lie in its folder"),
        ("inp 0x1000 4 - -", "needs an address and contents"),
        ("a 0x1000 4 inp.bin -\nb 0x1002 4 inp.bin -", "segments must not overlap"),
    ],
)
def test_malformed_dumps(tmp_path: Path, segments: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        dump(tmp_path, segments, inp=b"abcd")
