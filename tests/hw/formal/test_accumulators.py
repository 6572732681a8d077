"""The bank arbiter: one access per bank, one answer per request, a bounded wait for everybody.

The bound needs runs longer than the bound itself. The quick test therefore shortens the patience
in a copy of the arbiter; the slow one takes the arbiter as it is.
"""

import dataclasses
from pathlib import Path

import pytest

from daedal.hw.formal.accumulators import BankArbiter
from daedal.hw.formal.prove import prove
from daedal.hw.memory import accumulators
from daedal.hw.memory.accumulators import Accumulators
from daedal.isa.variant import Variant, load_variant
from tests.hw.formal.broken import broken_copy, first_quick

pytestmark = pytest.mark.formal

PATIENCE = ", PATIENCE_CYCLES, RAM_READ_CYCLES\n"
IMPATIENT = ", RAM_READ_CYCLES\nPATIENCE_CYCLES = 2\n"
IMPATIENT_BOUND_CYCLES = 12
BOUND_CYCLES = 40


def two_banks() -> Variant:
    tiny = load_variant("tiny")
    memory = dataclasses.replace(tiny.memory, acc_banks=2, acc_bytes=128)
    return dataclasses.replace(tiny, memory=memory)


def claims(block: object, bound_cycles: int) -> BankArbiter:
    return BankArbiter(variant=two_banks(), bound_cycles=bound_cycles, accumulators=block)


def test_an_impatient_arbiter_holds(tmp_path: Path) -> None:
    copy = broken_copy(accumulators, PATIENCE, IMPATIENT, tmp_path)
    result = prove(claims(copy.Accumulators, IMPATIENT_BOUND_CYCLES), depth=18)
    assert result.holds, result


@pytest.mark.slow
def test_the_arbiter_holds() -> None:
    result = prove(claims(Accumulators, BOUND_CYCLES), depth=BOUND_CYCLES + 12)
    assert result.holds, result


@pytest.mark.parametrize(
    ("right", "wrong", "claim"),
    first_quick(
        {
            "no ageing": (
                "expires.eq(age == PATIENCE_CYCLES - 2)",
                "expires.eq(0)",
                "never_starves",
            ),
            "STORE is never urgent": (
                'store_first = urgent["store"]',
                "store_first = Signal()",
                "store_never",
            ),
            "LOAD is never urgent": (
                'Mux(goes_first["fill"], 1 << bank["fill"], 0)',
                'Mux(goes_first["fill"], 0, 0)',
                "fill_never",
            ),
            "a read beside GEMM's": (
                "self._announced(self.gemm_read) | store_anywhere",
                "store_anywhere",
                "one_per_bank",
            ),
            "a write beside GEMM's": (
                "self._announced(self.gemm_write) | fill_here",
                "fill_here",
                "one_per_bank",
            ),
            "answers too early": (
                "delay(m, taken, ACC_READ_CYCLES,",
                "delay(m, taken, ACC_READ_CYCLES - 1,",
                "answered_once",
            ),
        }
    ),
)
def test_a_broken_arbiter_fails(right: str, wrong: str, claim: str, tmp_path: Path) -> None:
    copy = broken_copy(accumulators, right, wrong, tmp_path)
    again = tmp_path / "impatient"
    again.mkdir()
    impatient = broken_copy(copy, PATIENCE, IMPATIENT, again)
    result = prove(claims(impatient.Accumulators, IMPATIENT_BOUND_CYCLES), depth=18)
    assert result.broken is not None
    assert claim in result.broken[0], result
