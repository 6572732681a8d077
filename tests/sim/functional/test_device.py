"""The functional device: memory, token checks and errors that name the instruction."""

import pytest

from daedal.common.errors import ArtifactError, DeviceError
from daedal.isa.assembly import assemble
from daedal.isa.program import Program
from daedal.isa.variant import load_variant
from daedal.sim.functional.device import FunctionalDevice

TINY = load_variant("tiny")


def run(text: str, constants: bytes = bytes(range(64)), outputs: int = 64) -> bytes:
    device = FunctionalDevice(TINY)
    program = Program(TINY, tuple(assemble(text)), constants, (len(constants), 0, outputs, 0))
    bases = [device.alloc(size) for size in program.region_bytes]
    device.write(bases[0], constants)
    device.launch(program, bases)
    return device.read(bases[2], outputs)


def test_rows_travel_through_the_accumulators() -> None:
    text = """
        LOAD memory=ACC_NARROW row=4 blocks=1 rows=1 cols=2 push=STORE   # widened to 32 bits
        STORE memory=ACC base=outputs row=4 blocks=1 rows=1 cols=2 pop=LOAD
        FINISH
    """
    expected = b"".join(bytes([value, 0, 0, 0]) for value in range(16))
    assert run(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("STORE pop=LOAD\nFINISH", "instruction 0 (STORE) finds none from LOAD"),
        ("LOAD push=ALU\nFINISH", "no token may be left at FINISH, but some are: LOAD to ALU"),
        ("LOAD", "a program must end with FINISH"),
        (
            "LOAD row=511 blocks=1 rows=2 cols=1\nFINISH",
            "instruction 0 (LOAD): LOAD must stay below",
        ),
        ("LOAD base=outputs offset_beats=99999 blocks=1 rows=1 cols=1\nFINISH", "LOAD must stay"),
    ],
)
def test_failures_name_the_instruction(text: str, message: str) -> None:
    with pytest.raises(DeviceError) as caught:
        run(text)
    assert message in str(caught.value)


def test_a_program_of_another_variant_is_refused() -> None:
    program = Program(load_variant("vta"), tuple(assemble("FINISH")))
    with pytest.raises(ArtifactError, match="must run on the variant it was compiled for"):
        FunctionalDevice(TINY).launch(program, [0, 0, 0, 0])


def test_memory_grows_and_keeps_its_contents() -> None:
    device = FunctionalDevice(TINY, memory_bytes=4096)
    first = device.alloc(10)
    device.write(first, b"hello")
    second = device.alloc(1 << 20)
    device.write(second, bytes(1 << 20))
    assert second % 4096 == 0 and device.read(first, 5) == b"hello"


@pytest.mark.parametrize("size_bytes", [1, 100, 5 * 4096, 40 * 4096])
def test_memory_grows_by_what_is_needed(size_bytes: int) -> None:
    """Regions begin at pages; what was written stays when later ones need more memory."""
    device = FunctionalDevice(TINY, memory_bytes=4096)
    first = device.alloc(16)
    device.write(first, b"0123456789abcdef")
    second, third = device.alloc(size_bytes), device.alloc(8)
    device.write(second + size_bytes - 1, b"x")
    device.write(third, b"y" * 8)
    assert [address % 4096 for address in (first, second, third)] == [0, 0, 0]
    assert third - second == -(-size_bytes // 4096) * 4096
    assert device.read(first, 16) == b"0123456789abcdef"
    assert device.read(second + size_bytes - 1, 1) == b"x"
    assert device.read(third, 8) == b"y" * 8
