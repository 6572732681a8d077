"""Translated VTA programs against a plain interpreter of VTA, on the functional device."""

import numpy as np
import pytest

from daedal.common.errors import ProgramError, VariantError
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import AluOp, LoadMemory, Opcode, OutMemory
from daedal.isa.variant import load_variant
from daedal.isa.verifier import verify
from daedal.isa.vta.dump import VtaProgram
from daedal.isa.vta.stream import VtaInstruction, VtaMemory, VtaOpcode, VtaQueue
from daedal.isa.vta.translate import Translation, translate
from daedal.sim.functional.device import FunctionalDevice
from tests.support.vta import run_translation
from tests.support.vta_programs import FINISH, Builder, random_vta_program

VARIANT = load_variant("vta")
GEMM, ALU, LOAD, STORE = VtaOpcode.GEMM, VtaOpcode.ALU, VtaOpcode.LOAD, VtaOpcode.STORE
INP, WGT, ACC, UOP = VtaMemory.INP, VtaMemory.WGT, VtaMemory.ACC, VtaMemory.UOP


def check(program: VtaProgram, *, fuse: bool = True) -> Translation:
    """Translate, verify, run; every segment must end as the interpreter left it."""
    translation = translate(program, VARIANT, fuse=fuse)
    verify(translation.program)
    assert run_translation(translation, FunctionalDevice(VARIANT)) == []
    moved = {place.segment.address for place in translation.places}
    changed = {item.address for item in program.segments if item.data != item.after}
    assert changed and changed <= moved
    return translation


def counts(translation: Translation, opcode: Opcode, **values: int) -> int:
    """Instructions of `opcode` whose fields have these values."""
    return sum(
        item.opcode is opcode and all(getattr(item, name) == v for name, v in values.items())
        for item in translation.program.instructions
    )


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("case", range(12))
def test_random_programs(rng: np.random.Generator, case: int, fuse: bool) -> None:
    check(random_vta_program(rng, 40), fuse=fuse)


def tile(rng: np.random.Generator) -> Builder:
    """Four rows reset, multiplied over two rows of inputs each, shifted, clipped and stored."""
    builder = Builder(rng)
    builder.load_uops(0, (0, 0, 0))
    builder.loop(GEMM, 0, 1, reset=1, iter_in=4, dst_in=1)
    builder.load(INP, 0, 1, 8)
    builder.load(WGT, 0, 1, 2)
    builder.loop(
        GEMM, 0, 1, iter_out=2, iter_in=4, dst_in=1, src_out=4, src_in=1, wgt_out=1
    )  # fmt: skip
    for operation, immediate in ((3, 8), (0, 127), (1, 0)):
        builder.loop(
            ALU, 0, 1, iter_in=4, dst_in=1, operation=operation, use_immediate=1,
            immediate=immediate,
        )  # fmt: skip
    builder.store(0, 1, 4)
    return builder


def test_resets_and_copies_to_the_output_buffer_vanish(rng: np.random.Generator) -> None:
    translation = check(tile(rng).program())
    assert counts(translation, Opcode.ALU) == 3
    assert counts(translation, Opcode.ALU, operation=AluOp.MOV) == 0
    assert counts(translation, Opcode.GEMM, overwrite=1) == 1
    plain = check(tile(rng).program(), fuse=False)
    assert counts(plain, Opcode.ALU, operation=AluOp.MOV) == 2
    assert counts(plain, Opcode.GEMM, overwrite=1) == 0


def test_a_reset_stays_where_products_cover_only_a_part(rng: np.random.Generator) -> None:
    builder = tile(rng)
    gemm = builder.instructions[4]
    builder.instructions[4] = VtaInstruction.of(GEMM, **{**gemm.values, "iter_in": 3})
    translation = check(builder.program())
    assert counts(translation, Opcode.GEMM, overwrite=1) == 0


def test_only_the_first_products_after_a_reset_overwrite(rng: np.random.Generator) -> None:
    builder = tile(rng)
    builder.instructions.insert(5, builder.instructions[4])
    translation = check(builder.program())
    assert counts(translation, Opcode.GEMM, overwrite=1) == 1
    assert counts(translation, Opcode.GEMM) == 2


def test_a_reset_stays_where_first_products_have_no_pattern(rng: np.random.Generator) -> None:
    builder = Builder(rng)
    builder.load_uops(0, (0, 0, 0), (1, 1, 1))
    builder.load(INP, 0, 1, 8)
    builder.load(WGT, 0, 1, 2)
    builder.loop(GEMM, 0, 1, reset=1, iter_in=5, dst_in=1)
    # Row k is reached by the second micro-op of step k - 1 and by the first of step k.
    builder.loop(GEMM, 0, 2, iter_in=4, dst_in=1, src_in=1)
    builder.store(0, 1, 5)
    translation = check(builder.program())
    assert counts(translation, Opcode.GEMM, overwrite=1) == 0


@pytest.mark.parametrize("operation", [2, 4])
@pytest.mark.parametrize("distance", [0, 1, 9])
def test_the_last_results_before_a_store(
    rng: np.random.Generator, operation: int, distance: int
) -> None:
    """At distance 1 each vector reads the result of the one before; MUL takes several passes."""
    builder = Builder(rng)
    builder.load_uops(0, (distance, 0, 0))
    builder.load(ACC, 0, 1, 32)
    builder.loop(ALU, 0, 1, iter_in=8, dst_in=1, src_in=1, operation=operation)
    builder.store(0, 1, 32)
    translation = check(builder.program())
    direct = operation == 2 and distance != 1
    to_out = counts(translation, Opcode.ALU, operation=AluOp.ADD, destination=OutMemory.OUT)
    assert to_out == int(direct)


def test_results_that_are_used_again_stay_in_the_accumulators(rng: np.random.Generator) -> None:
    builder = tile(rng)
    builder.loop(ALU, 0, 1, iter_in=4, dst_in=1, operation=2, use_immediate=1, immediate=1000)
    builder.store(0, 1, 4, at=8)
    translation = check(builder.program())
    assert counts(translation, Opcode.ALU, operation=AluOp.MOV) == 1


def test_a_store_takes_the_low_bits_of_what_was_loaded(rng: np.random.Generator) -> None:
    builder = Builder(rng)
    builder.load(ACC, 0, 1, 5)
    builder.load(ACC, 20, 1, 3)
    builder.load(ACC, 5, 2, 3, x_stride=4, y_pad_0=1, x_pad_1=2)
    builder.store(3, 1, 20)
    check(builder.program())


@pytest.mark.parametrize("immediate", [-32768, -3, -1, 0, 1, 2, 7, 255, 32767])
def test_products_with_immediates_keep_32_bits(rng: np.random.Generator, immediate: int) -> None:
    check(product_program(rng, use_immediate=1, immediate=immediate).program())


def test_products_of_accumulators_keep_32_bits(rng: np.random.Generator) -> None:
    check(product_program(rng).program())


@pytest.mark.parametrize("use_immediate", [0, 1])
def test_products_spill_where_no_accumulator_is_free(
    rng: np.random.Generator, use_immediate: int
) -> None:
    builder = Builder(rng)
    builder.load_uops(0, (0, 0, 0))
    for row in range(0, 2048, 64):
        builder.load(ACC, row, 1, 64)
    builder.loop(
        ALU, 0, 1, iter_in=40, dst_in=1, src_in=2, operation=4, use_immediate=use_immediate,
        immediate=-12345 * use_immediate,
    )  # fmt: skip
    for byte in range(4):
        builder.store(0, 1, 64, at=64 * byte)
        builder.loop(
            ALU, 0, 1, iter_in=64, dst_in=1, operation=3, use_immediate=1, immediate=8
        )  # fmt: skip
    builder.store(1984, 1, 64, at=256)
    translation = check(builder.program())
    assert counts(translation, Opcode.STORE, memory=1, base=3) > 0


def test_what_is_spilled_before_it_is_written_is_set_to_zero(rng: np.random.Generator) -> None:
    """Rows that the program writes later hold another program's data when they are spilled."""
    builder = Builder(rng)
    builder.load_uops(0, (0, 0, 0))
    builder.load(ACC, 0, 1, 40)
    builder.loop(
        ALU, 0, 1, iter_in=40, dst_in=1, src_in=1, operation=4, use_immediate=1, immediate=-12345
    )  # fmt: skip
    builder.load(ACC, 40, 1, 24)
    for row in range(64, 2048, 64):
        builder.load(ACC, row, 1, 64)
    builder.store(0, 1, 64)
    translation = check(builder.program())
    assert counts(translation, Opcode.STORE, memory=1, base=3) > 0


def product_program(rng: np.random.Generator, **fields: int) -> Builder:
    builder = Builder(rng)
    builder.load_uops(0, (0, 0, 0), (0, 40, 0), (3, 3, 0), (9, 8, 0))
    builder.load(ACC, 0, 1, 64)
    builder.loop(ALU, 1, 2, iter_in=20, dst_in=1, src_in=1, operation=4, **fields)
    # Each vector reads what the one before it wrote, and one row is squared over and over.
    builder.loop(ALU, 3, 4, iter_in=8, dst_in=1, src_in=1, operation=4, **fields)
    builder.loop(ALU, 2, 3, iter_in=3, operation=4, **fields)
    for byte in range(4):
        builder.store(0, 1, 64, at=64 * byte)
        builder.loop(ALU, 0, 1, iter_in=64, dst_in=1, operation=3, use_immediate=1, immediate=8)
    return builder


def test_micro_ops_that_are_rewritten(rng: np.random.Generator) -> None:
    builder = Builder(rng)
    builder.load(ACC, 0, 1, 32)
    for row in (1, 7, 3, 1):
        builder.load_uops(5, (row, row + 8, 0))
        builder.loop(ALU, 5, 6, iter_in=2, dst_in=1, src_in=1, operation=2)
    builder.store(0, 1, 16)
    translation = check(builder.program())
    # All four are the same sequence at other places.
    assert counts(translation, Opcode.LOAD, memory=LoadMemory.UOP_ALU) == 1


def test_padded_micro_ops_are_zero(rng: np.random.Generator) -> None:
    builder = Builder(rng)
    builder.load(ACC, 0, 1, 32)
    builder.load_uops(0, (9, 9, 9), (9, 9, 9), (9, 9, 9))
    builder.uops.append(builder.uops[0])
    builder.load(UOP, 0, 2, 1, at=2, y_pad_0=1, x_pad_0=1)
    builder.loop(ALU, 0, 6, operation=2, use_immediate=1, immediate=3)
    builder.store(0, 1, 16)
    check(builder.program())


def test_padded_weights(rng: np.random.Generator) -> None:
    builder = Builder(rng)
    builder.load_uops(0, (0, 0, 0))
    builder.load(INP, 0, 1, 1)
    builder.load(WGT, 0, 3, 2, at=3, x_stride=5, y_pad_0=1, y_pad_1=1, x_pad_0=1, x_pad_1=2)
    builder.load(WGT, 25, 1, 15)
    builder.load(WGT, 40, 0, 2, y_pad_1=1, x_pad_0=3)
    builder.loop(GEMM, 0, 1, reset=1, iter_in=45, dst_in=1)
    builder.loop(GEMM, 0, 1, iter_in=45, dst_in=1, wgt_in=1)
    builder.store(0, 1, 45)
    check(builder.program())


def test_loops_longer_than_our_fields(rng: np.random.Generator) -> None:
    builder = Builder(rng)
    builder.load_uops(0, (0, 1, 0), (1, 0, 0))
    builder.load(ACC, 0, 1, 8)
    builder.loop(ALU, 0, 2, iter_in=4097, operation=2)
    builder.loop(ALU, 0, 1, iter_out=4098, operation=2)
    builder.loop(ALU, 1, 2, iter_out=3, iter_in=4100, dst_out=1, src_out=2, operation=2)
    builder.store(0, 1, 8)
    translation = check(builder.program())
    assert counts(translation, Opcode.ALU, extent1=4095) == 4
    assert counts(translation, Opcode.ALU, extent0=4095) == 1


def test_sequences_longer_than_our_micro_op_memory(rng: np.random.Generator) -> None:
    builder = Builder(rng)
    uops = [(k % 7, k % 5, k % 3) for k in range(2050)]
    builder.load_uops(0, *uops)
    builder.load(ACC, 0, 1, 8)
    builder.load(INP, 0, 1, 8)
    builder.load(WGT, 0, 1, 4)
    builder.loop(GEMM, 0, 2050, iter_out=2, src_out=1)
    builder.loop(ALU, 0, 2050, iter_in=2, dst_in=1, operation=2)
    builder.store(0, 1, 8)
    translation = check(builder.program())
    # Each of the two outer iterations loads all of them, in parts.
    parts = -(-len(uops) // scratchpad(VARIANT, Memory.UOP_GEMM).depth_rows)
    assert parts > 1
    assert counts(translation, Opcode.LOAD, memory=LoadMemory.UOP_GEMM) == 2 * parts


def test_tokens_of_an_earlier_run(rng: np.random.Generator) -> None:
    builder = tile(rng)
    gemm = builder.instructions[4]
    builder.instructions[4] = VtaInstruction.of(GEMM, **gemm.values, pop_next=1)
    left = {(VtaQueue.STORE, VtaQueue.COMPUTE): 1}
    check(builder.program(initial_tokens=left))
    with pytest.raises(ProgramError, match=r"VTA instruction 4 \(GEMM\): program order must"):
        translate(builder.program(), VARIANT)


def test_nothing_runs_after_finish(rng: np.random.Generator) -> None:
    builder = tile(rng)
    program = builder.program()
    builder.instructions += [FINISH]
    builder.store(0, 1, 4, at=10)
    more = VtaProgram((*program.instructions, *builder.instructions), program.segments)
    assert translate(more, VARIANT).program == translate(program, VARIANT).program


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (
            VtaInstruction.of(LOAD, memory=INP, x_size=1, y_size=1, dram_base=1),
            "the bytes 0x10 to 0x1f must lie in one memory segment",
        ),
        (
            VtaInstruction.of(LOAD, memory=ACC, x_size=1, sram_base=2047, y_pad_0=2),
            "must stay below 2048 elements of ACC, not reach 2048",
        ),
        (VtaInstruction.of(LOAD, memory=4, x_size=1, y_size=1), "OUT cannot be loaded"),
        (VtaInstruction.of(STORE, memory=ACC, x_size=1, y_size=1), "must move OUT, without pads"),
        (VtaInstruction.of(STORE, memory=4, x_size=1, x_pad_0=1), "must move OUT, without pads"),
        (
            VtaInstruction.of(GEMM, uop_begin=8, uop_end=9, iter_out=1, iter_in=1),
            "micro-op 8 must be loaded before it is used",
        ),
        (
            VtaInstruction.of(GEMM, uop_begin=8, uop_end=8193, iter_out=1, iter_in=1),
            "uop_end must be at most 8192, not 8193",
        ),
        (
            VtaInstruction.of(GEMM, uop_end=1, iter_out=2, iter_in=1, wgt_out=1023, dst_out=1),
            "row wgt must stay below 1024, not reach 1026",
        ),
        (VtaInstruction.of(STORE, memory=4, pop_next=1), "STORE has no neighbour on that side"),
    ],
)
def test_programs_that_are_refused(
    rng: np.random.Generator, instruction: VtaInstruction, message: str
) -> None:
    builder = Builder(rng)
    builder.load_uops(0, (1, 2, 3))
    program = builder.program()
    bad = VtaProgram((program.instructions[0], instruction, FINISH), program.segments)
    with pytest.raises(
        ProgramError, match=rf"VTA instruction 1 \({instruction.opcode.name}\)"
    ) as error:
        translate(bad, VARIANT)
    assert message in str(error.value)


def test_micro_ops_must_not_come_from_stored_memory(rng: np.random.Generator) -> None:
    builder = tile(rng)
    builder.load(VtaMemory.UOP, 0, 1, 1)
    program = builder.program()
    load = program.instructions[-2]
    out = next(item for item in program.segments if item.role == "out")
    bad = VtaInstruction.of(LOAD, **{**load.values, "dram_base": out.address // 4})
    with pytest.raises(ProgramError, match="must not come from memory that the program stores"):
        translate(VtaProgram((*program.instructions[:-2], bad, FINISH), program.segments), VARIANT)


def test_a_program_must_finish() -> None:
    with pytest.raises(ProgramError, match="a VTA program must end with FINISH"):
        translate(VtaProgram((), ()), VARIANT)


def test_the_variant_must_hold_vtas_rows() -> None:
    with pytest.raises(VariantError, match="VTA programs need 2048 rows of 16 bytes"):
        translate(VtaProgram((FINISH,), ()), load_variant("tiny"))
