"""Widths that follow from the instruction table: nothing that can be asked for is cut off."""

import pytest

from daedal.hw.interfaces import read_request
from daedal.hw.load.load import Load
from daedal.isa.instruction import Instruction
from daedal.isa.program import Program
from daedal.isa.table import LoadMemory, Opcode, OutMemory, instruction_layout
from daedal.isa.transfer import memory_beats
from daedal.isa.variant import Variant, load_variant, shipped_variants
from daedal.isa.verifier import verify
from tests.hw.stream_bench import Bench, source

BIG = load_variant("vta").replace("big", block_in=64, block_out=64, wgt_bytes=1 << 23)
"""Rows of WGT of 512 bus words, and 2,048 of them."""

VARIANTS = {
    **{name: load_variant(name) for name in shipped_variants()},
    "big": BIG,
    "bigger": BIG.replace("bigger", weight_bits=16, multiplier_style="dsp"),
    "least": load_variant("tiny").replace(
        "least", data_bits=512, block_in=64, block_out=64, wgt_bytes=1 << 14, acc_bytes=1024,
        out_bytes=256, inp_bytes=256, par_bytes=2048, gemm_uop_bytes=256, alu_uop_bytes=256,
        multiplier_style="dsp",
    ),
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_a_request_holds_the_longest_row_of_every_transfer(variant: Variant) -> None:
    beats = len(read_request(variant).create().p.beats)
    assert beats >= (32).bit_length(), "FETCH asks for 32 words"
    for opcode, kinds in ((Opcode.LOAD, LoadMemory.of(variant)), (Opcode.STORE, OutMemory)):
        cols = (1 << instruction_layout(variant, opcode)["cols"].width) - 1
        for kind in kinds:
            assert cols * memory_beats(variant, kind) < 1 << beats


def test_a_load_of_a_whole_scratchpad_in_one_row_is_asked_for() -> None:
    """A million bus words are a legal LOAD where WGT holds them."""
    words = 1 << 20
    load = Instruction.of(
        Opcode.LOAD, memory=LoadMemory.WGT, blocks=1, rows=1, cols=words // 512, base=1
    )
    program = Program(
        BIG, (load, Instruction.of(Opcode.FINISH)), region_bytes=(0, words * BIG.bus_bytes, 0, 0)
    )
    verify(program)
    dut = Load(variant=BIG)
    bench, asked = Bench(dut), []
    item = {"instruction": {"opcode": load.opcode, **load.values}, "index": 0}

    async def watch(ctx) -> None:
        while True:
            ctx.set(dut.region_words[1], words)
            _, _, valid, beats = await ctx.tick().sample(
                dut.request.valid, dut.request.payload.beats
            )
            if valid:
                asked.append(beats)

    bench.foreground(source(dut.issue, [item]))
    bench.background(watch)
    bench.until(lambda: asked)
    bench.run()
    assert asked[0] == words
