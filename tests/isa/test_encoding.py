"""Encoding, assembly and files are inverse to their readers; the committed page is current."""

import copy
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.common.errors import ArtifactError, ProgramError
from daedal.isa.assembly import assemble, disassemble
from daedal.isa.docs import isa_page, registers_header, with_registers_section
from daedal.isa.instruction import Instruction, decode, decode_all, encode, encode_all
from daedal.isa.microcode import decode_uops, encode_uops
from daedal.isa.program import Program
from daedal.isa.random_programs import random_program
from daedal.isa.table import Opcode, Unit, instruction_bytes, instruction_layout, micro_op_layout
from daedal.isa.tensor import TensorSpec, pack_tensor, unpack_tensor
from daedal.isa.variant import load_variant

TABLES = load_variant("tiny").replace("tables", tables=4)
VARIANTS = [load_variant("vta"), load_variant("tiny"), TABLES]


@st.composite
def instructions(draw: st.DrawFn) -> tuple[int, Instruction]:
    which = draw(st.integers(0, len(VARIANTS) - 1))
    opcode = draw(st.sampled_from(list(Opcode)))
    values = {}
    for name, item in instruction_layout(VARIANTS[which], opcode).items():
        if name == "opcode":
            continue
        low = -(1 << (item.width - 1)) if item.field.signed else 0
        number = st.integers(low, low + (1 << item.width) - 1)
        if item.choices is not None:
            number = st.sampled_from([int(choice) for choice in item.choices])
        values[name] = draw(number)
        if name in ("pop", "push") and opcode is not Opcode.FINISH:
            values[name] &= ~(1 << Instruction.of(opcode).unit)
    return which, Instruction.of(opcode, **values)


@given(instructions())
def test_instructions_copy_and_pickle(case: tuple[int, Instruction]) -> None:
    _, instruction = case
    assert copy.copy(instruction) == instruction
    assert ForkingPickler.loads(ForkingPickler.dumps(instruction)) == instruction


@given(instructions())
def test_decode_inverts_encode(case: tuple[int, Instruction]) -> None:
    variant, instruction = VARIANTS[case[0]], case[1]
    assert decode(variant, encode(variant, instruction)) == instruction


@given(st.lists(instructions(), max_size=5))
def test_assemble_inverts_disassemble(cases: list[tuple[int, Instruction]]) -> None:
    program = [instruction for _, instruction in cases]
    assert assemble(disassemble(program)) == program
    assert assemble(disassemble(program, numbered=True)) == program


@given(st.binary(min_size=32, max_size=32))
def test_decoding_anything_gives_an_instruction_or_a_refusal(data: bytes) -> None:
    try:
        instruction = decode(VARIANTS[0], data)
    except ProgramError:
        return
    assert encode(VARIANTS[0], instruction) == data


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Instruction.of(Opcode.LOAD, rows=9999), "LOAD.rows must be 0 to 4095, not 9999"),
        (Instruction.of(Opcode.LOAD, memory=7), "LOAD.memory must be one of INP = 0"),
        (
            Instruction.of(Opcode.GEMM, mode=4),
            "GEMM.mode must be 0 to 3, not 4",
        ),
        (Instruction.of(Opcode.LOAD, pop=1), "LOAD.pop must name other units, not its own"),
        (Instruction.of(Opcode.FINISH, rows=1), "FINISH has no field 'rows'"),
        (Instruction.of(Opcode.LOAD, pad_value=1 << 15), "LOAD.pad_value must be -32768 to 32767"),
    ],
)
def test_bad_fields_are_refused(instruction: Instruction, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        encode_all(VARIANTS[0], [Instruction.of(Opcode.FINISH), instruction])
    assert str(caught.value).startswith(f"instruction 1: {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("JUMP", "line 1: a mnemonic must be one of LOAD, GEMM, ALU, STORE, FINISH, not 'JUMP'"),
        ("\nLOAD rowz=1", "line 2: LOAD takes name=value with a name of its own, not 'rowz=1'"),
        ("LOAD row=1 row=2", "line 1: LOAD.row must be given once, not twice"),
        ("LOAD memory=DISK", "line 1: LOAD.memory must be INP or WGT"),
        ("GEMM pop=HOST", "line 1: GEMM.pop must list units of LOAD, GEMM, ALU, STORE, not 'HOST'"),
    ],
)
def test_bad_assembly_is_refused(text: str, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        assemble(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("unit", [Unit.GEMM, Unit.ALU])
def test_micro_ops_round_trip(unit: Unit, rng: np.random.Generator) -> None:
    for variant in VARIANTS:
        layout = micro_op_layout(variant, unit)
        columns = {name: rng.integers(0, 1 << item.width, 20) for name, item in layout.items()}
        decoded = decode_uops(variant, unit, encode_uops(variant, unit, columns))
        for name, column in columns.items():
            assert (decoded[name] == column).all()


def test_a_program_has_the_regions_it_is_given_and_room_for_its_constants() -> None:
    assert Program(VARIANTS[0], ()).region_bytes == (0, 0, 0, 0)
    assert Program(VARIANTS[0], (), bytes(8), (4, 5, 6, 7)).region_bytes == (8, 5, 6, 7)
    assert Program(VARIANTS[0], (), bytes(8), (9, 5, 6, 7)).region_bytes == (9, 5, 6, 7)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_tensor_of_another_size_is_refused(change: int) -> None:
    spec = TensorSpec("x", 1, 64, (1, 20, 3, 3), 8, 1, 16)
    message = f"tensor 'x' must have {spec.size_bytes} bytes, not {spec.size_bytes + change}"
    with pytest.raises(ProgramError, match=message):
        unpack_tensor(spec, bytes(spec.size_bytes + change))


@pytest.mark.parametrize(
    ("column", "offender"), [([3, 1 << 12], 1 << 12), ([-1, 3], -1), ([-1, 1 << 12], 1 << 12)]
)
def test_micro_ops_hold_what_their_fields_can(column: list[int], offender: int) -> None:
    variant = VARIANTS[0]
    width = micro_op_layout(variant, Unit.ALU)["dst"].width
    assert width < 12
    with pytest.raises(ProgramError) as caught:
        encode_uops(variant, Unit.ALU, {"dst": column})
    message = f"micro-op field ALU.dst must be 0 to {(1 << width) - 1}, not {offender}"
    assert str(caught.value) == message
    encode_uops(variant, Unit.ALU, {"dst": [0, (1 << width) - 1]})
    with pytest.raises(ProgramError, match="a micro-op of ALU has no field 'inp'"):
        encode_uops(variant, Unit.ALU, {"inp": [0]})


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_program_files_round_trip(variant, tmp_path: Path) -> None:
    spec = TensorSpec("x", 1, 64, (1, 20, 3, 3), 8, 1, 16)
    program = random_program(variant, 1).program
    program = Program(
        variant,
        program.instructions,
        program.constants,
        program.region_bytes,
        (spec,),
        (),
        {3: "a"},
    )
    path = tmp_path / "p.daedal"
    program.save(path)
    assert Program.load(path) == program
    assert program.to_bytes() == path.read_bytes()
    assert [item.name for item in tmp_path.iterdir()] == ["p.daedal"]


def test_damaged_program_files_are_refused(rng: np.random.Generator) -> None:
    data = random_program(VARIANTS[1], 2).program.to_bytes()
    for cut in (0, 10, len(data) // 2, len(data) - 1):
        with pytest.raises(ArtifactError):
            Program.from_bytes(data[:cut])
    whole = Program.from_bytes(data)
    for at in rng.integers(0, len(data), 200):
        broken = bytearray(data)
        broken[at] ^= 1 << int(rng.integers(8))
        try:
            assert Program.from_bytes(bytes(broken)) == whole  # a bit that carries no content
        except ArtifactError as error:
            assert "must" in str(error)


def test_a_program_knows_its_variant() -> None:
    program = random_program(VARIANTS[1], 3).program
    with pytest.raises(ArtifactError, match=r"compiled for \('tiny'.*not on the rtl of 'vta'"):
        program.check_variant(VARIANTS[0], "the rtl")


def test_truncated_streams_are_refused() -> None:
    variant = VARIANTS[0]
    with pytest.raises(ProgramError, match="must be a multiple of 32 bytes, not 31"):
        decode_all(variant, bytes(instruction_bytes(variant) - 1))
    with pytest.raises(ProgramError, match="instruction 0: an opcode must be one of"):
        decode_all(variant, bytes(instruction_bytes(variant)))


@given(st.integers(1, 3), st.integers(1, 40), st.integers(1, 4), st.sampled_from((4, 8, 16)))
def test_tensors_round_trip(n: int, c: int, h: int, bits: int) -> None:
    spec = TensorSpec("t", 1, 0, (n, c, h, 3), bits, 2, 16)
    low = -(1 << (bits - 1))
    values = np.random.default_rng(c).integers(low, -low, spec.shape)
    data = pack_tensor(spec, values)
    assert len(data) == spec.size_bytes
    assert (unpack_tensor(spec, data) == values).all()
    if bits == 8:  # element (n, c, h, w) lies where the layout says
        blocked = np.frombuffer(data, np.int8).reshape(spec.physical_shape)
        assert (
            blocked[(n - 1) // 2, (c - 1) // 16, h - 1, 2, (n - 1) % 2, (c - 1) % 16]
            == (values[n - 1, c - 1, h - 1, 2])
        )


@given(st.integers(1, 3), st.integers(1, 20), st.integers(1, 4), st.integers(4, 6))
def test_columns_of_a_larger_map(n: int, c: int, h: int, pitch: int) -> None:
    """They are unpacked from the bytes of that map, where the positions say."""
    whole = TensorSpec("t", 1, 0, (n, c, h, pitch), 8, 2, 8)
    values = np.random.default_rng(c).integers(1, 128, whole.shape)
    data, column = pack_tensor(whole, values), 2 * 8
    for begin in range(pitch - 3):
        part = replace(whole, shape=(n, c, h, 3), pitch=pitch)
        held = data[begin * column :][: part.size_bytes]
        found = unpack_tensor(part, held)
        assert (found == values[..., begin : begin + 3]).all()
        index = h * pitch * column - (pitch - 2) * column
        place = part.element_at(index)
        assert place == (0, 0, h - 1, 2) and found[place] == held[index]
        if begin:
            assert part.element_at(index + column)[3] == 3, "a column of another map"


def test_committed_page_is_current() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "isa.md"
    assert page.read_text() == isa_page(VARIANTS[0]), "run `make docs`"


def test_committed_register_map_is_current() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "hardware.md").read_text()
    assert page == with_registers_section(page), "run `make docs`"


def test_a_page_without_place_for_the_registers_is_refused() -> None:
    with pytest.raises(ValueError, match="must have one place"):
        with_registers_section("# Hardware\n")


def test_header_names_every_register() -> None:
    header = registers_header()
    assert "#define DAEDAL_CONTROL 0x000u" in header
    assert "#define DAEDAL_GEMM_BUSY 0x124u" in header
