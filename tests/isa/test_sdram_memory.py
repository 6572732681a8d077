"""`SdramMemory`: what the simulators can play, and machines that it suits."""

from dataclasses import replace
from typing import Any

import pytest

from daedal.common.errors import UserError
from daedal.isa.memory_model import PRESETS
from daedal.isa.sdram_memory import SdramMemory
from daedal.isa.variant import load_variant

VTA = load_variant("vta")
BOARD = PRESETS["ulx3s"].sdram
assert BOARD is not None


def test_the_chip_of_the_board_at_its_clock() -> None:
    assert BOARD.chip.name == "IS42S16160G-7"
    assert BOARD.times.clock_hz == pytest.approx(142.857e6, rel=1e-5)
    assert BOARD.refresh_cycles == 558
    # A read in the command register; its columns in half a word each; RAM; register.
    assert BOARD.read_word_cycles == 13
    assert replace(BOARD, capture_clocks=1).read_word_cycles == 12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"capture_clocks": 5}, r"capture_clocks of an SDRAM must be 1 to 4, not 5 \(chip 'IS42"),
        ({"phase_cycles": 558}, "phase_cycles of an SDRAM must be 0 to 557, the cycles between"),
        ({"phase_cycles": -1}, "phase_cycles of an SDRAM must be 0 to 557"),
    ],
)
def test_what_cannot_be_played_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        replace(BOARD, **change)


def test_machines_that_it_does_not_suit() -> None:
    memory: SdramMemory = BOARD
    memory.check(VTA, memory.chip.size_bytes)
    with pytest.raises(UserError, match="must fit the memory's 33554432 bytes; they need 33554433"):
        memory.check(VTA, memory.chip.size_bytes + 1)
    with pytest.raises(UserError, match=r"bus\.data_bits must be 64 with this SDRAM"):
        memory.check(load_variant("wide"))
    many = replace(VTA, bus=replace(VTA.bus, write_bursts=32))
    with pytest.raises(UserError, match=r"bus\.write_bursts must be at most 16 with an SDRAM, not"):
        memory.check(many)
