"""The faults that slow tests look for still have their place in the sources of the hardware."""

import pytest

from tests.support.mutants import MUTANTS, planted


@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_is_planted_for_a_while(name: str) -> None:
    mutant = MUTANTS[name]
    healthy = getattr(mutant.owner, mutant.method)
    with planted(mutant):
        assert getattr(mutant.owner, mutant.method) is not healthy
    assert getattr(mutant.owner, mutant.method) is healthy
