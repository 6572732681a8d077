"""Mutated files: each is refused in one sentence, or compiles and computes what it means.

A failure names the case by kind and number; ``python -m tests.robustness.worker`` with a line of
both, such as ``model 17``, runs it again.
"""

from collections import Counter
from collections.abc import Collection

import pytest

from tests.robustness.supervisor import Outcome, run_cases

SAMPLE = {"artifact": 12, "cpu-artifact": 10, "cpu-model": 15, "model": 18}
"""How many cases of each kind run in every test run, from the first."""

ALL = {"artifact": 1_000, "cpu-artifact": 500, "cpu-model": 1_500, "model": 2_000}

ONCE_FAILED = [("model", 288), ("model", 1626)]
"""Cases of many that are not in the sample: the host computes a product that could be integer."""


def check(outcomes: Collection[Outcome]) -> None:
    """All must end well, and not all of them in the same way."""
    failures = [str(item) for item in outcomes if item.outcome == "failed"]
    assert not failures, "\n\n".join(failures)
    counts = Counter(item.outcome for item in outcomes)
    assert min(counts["done"], counts["refused"]) > len(outcomes) / 20, counts


@pytest.mark.heavy(12)
def test_first_cases() -> None:
    """Of all kinds, in one process, which takes 2 s to start."""
    first = [(kind, number) for kind, count in SAMPLE.items() for number in range(count)]
    outcomes = list(run_cases([*first, *ONCE_FAILED]))
    for kind in SAMPLE:
        check([item for item in outcomes if item.kind == kind])
    assert {item.outcome for item in outcomes[-len(ONCE_FAILED) :]} == {"done"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL)
def test_all_other_cases(kind: str) -> None:
    check(list(run_cases((kind, number) for number in range(SAMPLE[kind], ALL[kind]))))
