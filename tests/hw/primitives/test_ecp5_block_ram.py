"""Block RAM by name against the portable memory: every width of a block, odd depths, enables."""

from pathlib import Path

import numpy as np
import pytest

from daedal.hw.primitives.ecp5_block_ram import Ecp5BlockRam
from daedal.hw.row_memory import RowMemory
from tests.hw.primitives.ecp5_models import disagreements

# Depth, columns, bits of a column: all six widths of a block, full and not full.
FORMS = [
    (512, 2, 64),
    (300, 3, 36),
    (1024, 1, 40),
    (1000, 2, 18),
    (2048, 1, 64),
    (1500, 1, 10),
    (4096, 2, 7),
    (5000, 1, 5),
    (16384, 1, 3),
    (64, 2, 64),
]


def stimuli(
    rng: np.random.Generator, depth: int, columns: int, bits: int, cycles: int
) -> list[dict[str, int]]:
    """Reads and writes, few rows among them often; no column is written where it is read."""
    few = rng.choice(depth, 6)
    few[:2] = 0, depth - 1
    row_bits = (depth - 1).bit_length()
    result = []
    for _ in range(cycles):
        rows = [
            int(rng.choice(few) if rng.random() < 0.8 else rng.integers(depth))
            for _ in range(columns + 1)
        ]
        read, *writes = rows
        enable = int(rng.integers(1 << columns))
        reads = int(rng.random() < 0.7)
        for number, row in enumerate(writes):
            if reads and row == read:
                enable &= ~(1 << number)
        result.append(
            {
                "read__enable": reads,
                "read__row": read,
                "write__enable": enable,
                "write__row": sum(row << (number * row_bits) for number, row in enumerate(writes)),
                "write__data": int.from_bytes(rng.bytes(columns * bits // 8 + 1), "little"),
            }
        )
    return result


@pytest.mark.rtl
@pytest.mark.parametrize(("depth", "columns", "bits"), FORMS)
def test_row_memory_by_name(
    depth: int, columns: int, bits: int, rng: np.random.Generator, tmp_path: Path
) -> None:
    portable, hard = (RowMemory(depth=depth, columns=columns, column_bits=bits) for _ in range(2))
    differ, changed = disagreements(
        portable, hard, stimuli(rng, depth, columns, bits, 600), tmp_path
    )
    assert (differ, changed > 150) == (0, True)


@pytest.mark.parametrize(
    ("depth", "width", "suits"),
    [
        (512, 32, True),
        (64, 64, True),
        (32, 64, False),
        (16, 8, False),
        (16_385, 36, False),
        (128, 16, True),
    ],
)
def test_where_blocks_suit(depth: int, width: int, suits: bool) -> None:
    """Not where look-up tables are enough, and not deeper than a block."""
    assert Ecp5BlockRam.suits(depth, width) is suits
