"""Block RAM by name against the portable memory: every width of a block, odd depths, stalls."""

from pathlib import Path

import numpy as np
import pytest
from amaranth.back import verilog

from daedal.hw.memory.row_memory import RowMemory
from daedal.hw.primitives.block_ram import BlockRam
from daedal.hw.synth.families import Family
from tests.hw.primitives.ecp5_models import disagreements

# Depth and bits of a row: all six widths of a block, full and not full, one or several of them.
FORMS = [
    (512, 64),
    (300, 36),
    (1024, 40),
    (1000, 18),
    (2048, 64),
    (1500, 10),
    (4096, 7),
    (5000, 5),
    (16384, 3),
    (64, 64),
]


def row_numbers(rng: np.random.Generator, depth: int, count: int) -> np.ndarray:
    """Few rows often, first and last among them, any row sometimes: (cycles, `count`)."""
    few = np.array([0, depth - 1, *rng.choice(depth, 4)])
    shape = (600, count)
    return np.where(
        rng.random(shape) < 0.8, rng.choice(few, shape), rng.integers(depth, size=shape)
    )


@pytest.mark.rtl
@pytest.mark.parametrize(("depth", "width"), FORMS)
def test_block_ram_by_name(
    depth: int, width: int, rng: np.random.Generator, tmp_path: Path
) -> None:
    """Reads, writes and stalls at random; no row is written in the cycle in which it is read."""
    stimuli = []
    for read, write in row_numbers(rng, depth, 2).tolist():
        reads, writes, advances = (rng.random(3) < 0.7).tolist()
        stimuli.append(
            {
                "read_enable": int(reads),
                "read_row": read,
                "advance": int(advances),
                "write_enable": int(writes and not (reads and read == write)),
                "write_row": write,
                "write_data": int.from_bytes(rng.bytes(width // 8 + 1), "little"),
            }
        )
    portable, hard = (BlockRam(depth=depth, width=width) for _ in range(2))
    differ, changed = disagreements(portable, hard, stimuli, tmp_path)
    assert (differ, changed > 150) == (0, True)


@pytest.mark.rtl
@pytest.mark.parametrize(("depth", "columns", "bits"), [(512, 2, 64), (128, 3, 16)])
def test_row_memory_by_name(
    depth: int, columns: int, bits: int, rng: np.random.Generator, tmp_path: Path
) -> None:
    """Columns written one by one, each to a row of its own."""
    row_bits = (depth - 1).bit_length()
    stimuli = []
    for read, *writes in row_numbers(rng, depth, columns + 1).tolist():
        reads = rng.random() < 0.7
        enable = [rng.random() < 0.5 and not (reads and row == read) for row in writes]
        stimuli.append(
            {
                "read__enable": int(reads),
                "read__row": read,
                "write__enable": sum(bit << number for number, bit in enumerate(enable)),
                "write__row": sum(row << (number * row_bits) for number, row in enumerate(writes)),
                "write__data": int.from_bytes(rng.bytes(columns * bits // 8 + 1), "little"),
            }
        )
    portable, hard = (RowMemory(depth=depth, columns=columns, column_bits=bits) for _ in range(2))
    differ, changed = disagreements(portable, hard, stimuli, tmp_path)
    assert (differ, changed > 150) == (0, True)


@pytest.mark.parametrize(
    ("depth", "width", "blocks"),
    [
        (512, 32, 1),
        (64, 64, 2),
        (1024, 64, 4),
        (32, 64, 0),
        (16, 8, 0),
        pytest.param(16_385, 36, 0, marks=pytest.mark.slow),
        (128, 16, 1),
    ],
)
def test_where_blocks_pay(depth: int, width: int, blocks: int) -> None:
    """Not where look-up tables are enough, not where rows do not fit one block, not elsewhere."""
    for family, expected in ((Family.ECP5, blocks), (Family.XC7, 0), (None, 0)):
        ram = BlockRam(depth=depth, width=width)
        text = verilog.convert(ram, platform=family, emit_src=False)
        assert text.count("DP16KD #(") == expected
