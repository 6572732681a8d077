"""The listed bursts of programs: the words of the expansion, in order, cut as AXI4 allows."""

import numpy as np
import pytest

from bench.correctness.random_runs import every_variant
from daedal.isa.bursts import program_bursts
from daedal.isa.latencies import MAX_BURST_BEATS, PAGE_BYTES
from daedal.isa.program import Program
from daedal.isa.random_programs import random_program
from daedal.isa.table import Opcode
from daedal.isa.transfer import transfer
from daedal.isa.variant import load_variant

BASES = (0, 1 << 20, 1 << 21, 3 << 20)


def moved_words(program: Program) -> tuple[list[int], list[int]]:
    """Addresses of all words of LOADs and STOREs in order, and whether each is written."""
    size = program.variant.bus_bytes
    addresses: list[int] = []
    writes: list[int] = []
    for instruction in program.instructions:
        if instruction.opcode in (Opcode.LOAD, Opcode.STORE):
            move = transfer(program.variant, instruction)
            words = move.offsets_bytes[:, None] + np.arange(0, move.row_bytes, size)
            addresses += (BASES[instruction.base] + words).reshape(-1).tolist()
            writes += [int(instruction.opcode is Opcode.STORE)] * words.size
    return addresses, writes


@pytest.mark.parametrize("name", every_variant())
def test_bursts_cover_the_words_of_random_programs(name: str) -> None:
    for seed in range(4):
        program = random_program(every_variant()[name], seed, length=60).program
        found, size = program_bursts(program, BASES), program.variant.bus_bytes
        first = np.repeat(found.addresses, found.beats)
        begins = np.repeat(np.cumsum(found.beats) - found.beats, found.beats)
        addresses = first + (np.arange(len(first)) - begins) * size
        assert (addresses.tolist(), np.repeat(found.writes, found.beats).tolist()) == moved_words(
            program
        )
        assert found.beats.min() >= 1
        assert found.beats.max() <= MAX_BURST_BEATS
        last = found.addresses + (found.beats - 1) * size
        assert (last // PAGE_BYTES == found.addresses // PAGE_BYTES).all()


def test_a_program_without_transfers_has_no_bursts() -> None:
    program = Program(load_variant("tiny"), ())
    assert len(program_bursts(program, BASES).beats) == 0
