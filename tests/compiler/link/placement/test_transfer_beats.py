"""Bus words of transfers: those that the semantics of the instruction set touch."""

import numpy as np
import pytest

from daedal.compiler.link.placement.transfer_beats import TransferBeats, entries
from daedal.isa.effects import external
from daedal.isa.instruction import Instruction
from daedal.isa.table import Opcode
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")
WORDS = 1 << 12


@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE])
def test_words_are_those_of_the_semantics(opcode: Opcode, rng: np.random.Generator) -> None:
    """Also of transfers that move nothing, for want of blocks, rows or columns."""
    beats_of = TransferBeats(TINY)
    for _ in range(100):
        sizes = {name: int(rng.integers(4)) for name in ("blocks", "rows", "cols")}
        strides = {f"{name}_stride_beats": int(rng.integers(64)) for name in ("row", "block")}
        values = {name: value for name, value in sizes.items() if value}
        instruction = Instruction.of(
            opcode, base=1, offset_beats=int(rng.integers(100)), **values, **strides
        )
        wanted = external(TINY, instruction)
        found = beats_of.of(instruction, 1)
        assert (found is None) == (wanted is None)
        if found is None or wanted is None:
            continue
        table = np.zeros(WORDS, np.int32)
        entries(table, found)[...] = 1
        assert found.base == wanted.base
        np.testing.assert_array_equal(np.flatnonzero(table), wanted.beats)
