"""Rates of networks on a board: the page is the ledger's, and what bounds a network."""

from pathlib import Path

import pytest

from bench.figures import Figures
from bench.networks.board_rates import (
    BOARD,
    BOARD_MEMORIES,
    BOARD_MEMORY,
    BOARD_NETWORKS,
    Rate,
    ledger_rates,
    memories_at,
    with_rates_section,
)
from daedal.common.errors import UserError

PAGE = Path(__file__).resolve().parents[3] / "docs" / "boards.md"


def test_the_page_is_what_the_ledger_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_rates_section(page) == page, "run `make docs`"


def test_faster_memories_are_not_slower() -> None:
    for rate in ledger_rates():
        found = [rate.per_second(memory) for memory in BOARD_MEMORIES]
        assert found == sorted(found), rate.network.title


@pytest.mark.parametrize(
    ("products", "vectors", "words", "bound"),
    [(900, 100, 100, "products"), (100, 900, 100, "ALU"), (100, 100, 450, "memory")],
)
def test_the_part_that_works_longest_bounds(
    products: int, vectors: int, words: int, bound: str
) -> None:
    figures = Figures(1000, 1, 1, 8 * words, products=products, vectors=vectors)
    rate = Rate(BOARD_NETWORKS[0], dict.fromkeys(BOARD_MEMORIES, figures), mhz=50.0)
    assert rate.bound == bound
    assert rate.shares[bound] == 0.9
    assert rate.per_second(BOARD_MEMORY) == 50_000


def test_the_memory_follows_the_clock() -> None:
    fastest = memories_at(BOARD.most_mhz)[BOARD_MEMORY]
    slower = memories_at(0.9 * BOARD.most_mhz)[BOARD_MEMORY]
    assert fastest == BOARD_MEMORIES[BOARD_MEMORY]
    assert fastest.sdram is not None and slower.sdram is not None
    assert slower.sdram.refresh_cycles < fastest.sdram.refresh_cycles
    with pytest.raises(UserError, match="must be at most"):
        memories_at(2 * BOARD.most_mhz)
