"""GEMM's accumulation: rows in flight are forwarded from the latest product, at every distance."""

from pathlib import Path

import pytest

from daedal.hw.formal.forwarding import INDUCTION_CYCLES, Forwarding
from daedal.hw.formal.prove import prove
from daedal.hw.gemm import forwarding
from daedal.isa.latencies import ACC_READ_TO_WRITE_CYCLES
from tests.hw.formal.broken import broken_copy, first_quick

pytestmark = pytest.mark.formal

SUMS = "sums_are_the_models"
WRITES = "writes_are_announced"
DEPTH = 15
"""Cycles in which the last distance is reached: a row that comes from memory again."""


def test_forwarding_is_proved() -> None:
    result = prove(Forwarding(), depth=DEPTH, steps=INDUCTION_CYCLES)
    assert result.proved, result
    distances = range(1, ACC_READ_TO_WRITE_CYCLES + 2)
    assert set(result.reached) == {f"takes_the_row_{distance}_later" for distance in distances}


@pytest.mark.slow
def test_forwarding_of_wide_rows_is_proved() -> None:
    """256 rows, as `tiny` has, of eight elements in four slices."""
    claims = Forwarding(row_bits=8, elements=8, bits=4)
    result = prove(claims, depth=DEPTH, steps=INDUCTION_CYCLES)
    assert result.proved, result


@pytest.mark.parametrize(
    ("right", "wrong", "claim"),
    first_quick(
        {
            "takes the farthest": ("~match[1:d].any()", "~match[d + 1 :].any()", SUMS),
            "does not reach the write of the same cycle": (
                "& ~restart for d in distances",
                "& ~restart for d in distances[:-1]",
                SUMS,
            ),
            "compares no rows": ("(rows[d] == row)", "1", SUMS),
            "forwards what never was": (
                "valids[d] & (rows[d] == row)",
                "(rows[d] == row)",
                SUMS,
            ),
            "never overwrites": ("~fresh & ~match[1:].any()", "~match[1:].any()", SUMS),
            "overwrites with what is in flight": ("& ~restart", "", SUMS),
            "never takes its own result": (
                "Mux(again.copy_for(number), own_result, operands[number])",
                "operands[number]",
                SUMS,
            ),
            "its own result too early": (
                'delay(m, match[0], ACC_READ_CYCLES, name="again")',
                'delay(m, match[0], ACC_READ_CYCLES - 1, name="again")',
                SUMS,
            ),
            "chooses too early": (
                "delay(m, nearest, ACC_READ_CYCLES - 2,",
                "delay(m, nearest, ACC_READ_CYCLES - 3,",
                SUMS,
            ),
            "takes two": (
                "(match[d] & ~match[1:d].any() for",
                "(match[d] for",
                "one_source_of_a_row_must_be_chosen",
            ),
            "writes too early": (
                "write.enable.eq(valids[-1 - GEMM_AHEAD_CYCLES])",
                "write.enable.eq(valids[-2 - GEMM_AHEAD_CYCLES])",
                WRITES,
            ),
            "writes another row": (
                "write.row.eq(rows[-1 - GEMM_AHEAD_CYCLES])",
                "write.row.eq(rows[-1])",
                WRITES,
            ),
        },
        quick=12,
    ),
)
def test_broken_forwarding_fails(right: str, wrong: str, claim: str, tmp_path: Path) -> None:
    copy = broken_copy(forwarding, right, wrong, tmp_path)
    result = prove(Forwarding(module=copy), depth=DEPTH)
    assert result.broken is not None
    assert claim in result.broken[0], result
