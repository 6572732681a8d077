"""What a memory makes of estimates: how that is derived from its rules."""

import re
from pathlib import Path

import numpy as np
import pytest

from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.cost.memory import LAST_WRITE_CYCLES, MemoryCost, first_read_cycles
from daedal.isa.memory_model import PRESETS
from daedal.isa.scratchpad import Memory
from daedal.isa.sdram_memory import SLOT_CYCLES
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant

ROOT = Path(__file__).resolve().parents[3]
BOARD = PRESETS["ulx3s"]


def measured(column: str) -> float:
    """A figure of the SDRAM in docs/memory.md, which the cycle model has counted."""
    page = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")
    heads, cells = (
        [cell.strip() for cell in line.split("|")]
        for line in re.findall(r"^\| (?:preset \| first|`ulx3s` \| \d).*$", page, re.MULTILINE)
    )
    return float(dict(zip(heads, cells, strict=True))[column])


def test_the_costs_of_an_sdram_are_those_that_are_counted() -> None:
    sdram = BOARD.sdram
    assert sdram is not None
    assert first_read_cycles(sdram) == measured("first beat of a read")
    beats = 8
    written = beats - 1 + LAST_WRITE_CYCLES + (beats - 1) * SLOT_CYCLES
    assert written == measured("B of a write")
    assert 8 / MemoryCost.of(BOARD).word_cycles == pytest.approx(measured("reads"), abs=0.01)


def test_the_costs_of_presets() -> None:
    assert MemoryCost.of(PRESETS["ddr"]) == MemoryCost(1.0)
    assert MemoryCost.of(PRESETS["slow"]).word_cycles == 2
    assert MemoryCost.of(PRESETS["ideal"]).word_cycles == 1


@pytest.mark.parametrize(
    ("products", "vectors", "words", "expected"),
    [
        (1000, 0, 400, 1100),  # words stay hidden
        (1000, 0, 800, 1700),  # they become the busiest
        (0, 300, 1000, 2100),  # they were it
        (0, 2500, 1000, 2600),
    ],
)
def test_the_busiest_part_decides(products: int, vectors: int, words: int, expected: int) -> None:
    busiest = max(products, vectors, words)
    amounts = {"estimate": busiest + 100, "product_cycles": products, "vector_cycles": vectors}
    features = {name: np.array([float(n)]) for name, n in {**amounts, "beats": words}.items()}
    assert MemoryCost(2.0).cycles(features) == [expected]


def test_a_machine_has_the_rates_and_latencies_of_its_memory() -> None:
    variant = load_variant("ecp5")
    usual, board = machine_cost(variant), machine_cost(variant, BOARD)
    assert usual.word_cycles == 1 and usual.row_cycles == usual.row_beats
    assert board.row_beats == usual.row_beats
    words = MemoryCost.of(BOARD).word_cycles
    assert board.row_cycles[Memory.WGT] == usual.row_beats[Memory.WGT] * words
    assert board.instruction_cycles == usual.instruction_cycles * words
    assert board.latency[Unit.GEMM] == usual.latency[Unit.GEMM]
    assert usual.latency[Unit.LOAD] - board.latency[Unit.LOAD] == 64 - measured(
        "first beat of a read"
    )
