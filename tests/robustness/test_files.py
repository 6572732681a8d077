"""Mutated files: each is refused in one sentence, or compiles and computes what it means.

A failure names the case by kind and number; ``python -m tests.robustness.worker`` with a line of
both, such as ``model 17``, runs it again.
"""

from collections import Counter
from collections.abc import Iterable

import pytest

from tests.robustness.supervisor import run_cases

SAMPLE = {"artifact": 20, "cpu-artifact": 15, "cpu-model": 25, "model": 30}
"""How many cases of each kind run in every test run, from the first."""

ALL = {"artifact": 1_000, "cpu-artifact": 500, "cpu-model": 1_500, "model": 2_000}


ONCE_FAILED = {"model": (288, 1626)}
"""Cases of many that are not in the sample: the host computes a product that could be integer."""


def check(kind: str, numbers: Iterable[int]) -> None:
    """Run cases; all must end well, and not all of them in the same way."""
    outcomes = list(run_cases(kind, numbers))
    failures = [str(item) for item in outcomes if item.outcome == "failed"]
    assert not failures, "\n\n".join(failures)
    counts = Counter(item.outcome for item in outcomes)
    assert min(counts["done"], counts["refused"]) > len(outcomes) / 20, counts


@pytest.mark.heavy(10)
@pytest.mark.parametrize("kind", SAMPLE)
def test_first_cases(kind: str) -> None:
    check(kind, range(SAMPLE[kind]))


@pytest.mark.heavy(5)
@pytest.mark.parametrize("kind", ONCE_FAILED)
def test_cases_that_failed(kind: str) -> None:
    failures = [str(x) for x in run_cases(kind, ONCE_FAILED[kind]) if x.outcome != "done"]
    assert not failures, "\n\n".join(failures)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL)
def test_all_other_cases(kind: str) -> None:
    check(kind, range(SAMPLE[kind], ALL[kind]))
