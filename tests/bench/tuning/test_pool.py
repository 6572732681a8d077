"""`bench.tuning.pool`: what it calls passed, and a few killed writers."""

import dataclasses

import pytest

pytest.importorskip("distributed", reason="the extra `tune` is not installed")

from bench.tuning.pool import BATCH, DatabaseRow, PoolRow, kill_writers


def test_killed_writers_lose_nothing() -> None:
    row = kill_writers(3)
    assert row.passed and row.kills == 3 and row.acknowledged >= 3 * BATCH


GOOD = PoolRow(
    candidates=9,
    measured=9,
    accepted_twice=0,
    started=11,
    finished=9,
    finished_twice=0,
    ran_twice=0,
    wrong_cycles=0,
    kills=3,
    seconds=1.0,
)


@pytest.mark.parametrize(
    "change",
    [
        {"measured": 8},
        {"accepted_twice": 1},
        {"finished_twice": 1},
        {"wrong_cycles": 1},
        {"kills": 0},
    ],
)
def test_a_candidate_that_is_lost_misses_the_bar(change: dict[str, int]) -> None:
    assert GOOD.passed and not dataclasses.replace(GOOD, **change).passed


@pytest.mark.parametrize("change", [{"lost": 1}, {"broken_batches": 1}])
def test_a_record_that_is_lost_misses_the_bar(change: dict[str, int]) -> None:
    good = DatabaseRow(kills=3, acknowledged=15, lost=0, broken_batches=0)
    assert good.passed and not dataclasses.replace(good, **change).passed
