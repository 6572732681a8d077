"""ONNX's own node and model suites on `daedal.backend`.

`onnx_backend_failures.toml` has the cases that fail, each with the reason. It may only shrink: a
case that passes and is said to fail is an error, too. Cases of `AS_ONNXRUNTIME`, whose results are
others than ONNX's on purpose, are compared with onnxruntime. `make test` runs every twelfth case,
`make test-full` all.
"""

import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.onnx_suite import Case, cases, where

KNOWN = tomllib.loads((Path(__file__).parent / "onnx_backend_failures.toml").read_text())

LEAST_PASSED = 0.97
LEAST_COMPILED = 1290


def _run(some: Iterable[Case]) -> tuple[Counter[str], list[str]]:
    """How many cases ran where, and those that did not do what the file says."""
    counts: Counter[str] = Counter()
    wrong = []
    for case in some:
        try:
            found = where(case.run())
        except Exception as error:  # whatever fails is counted
            found = "failed"
            if case.name not in KNOWN["fails"] | KNOWN["varies"]:
                wrong.append(f"{case.name} fails: {error}")
        else:
            if case.name in KNOWN["fails"]:
                wrong.append(f"{case.name} passes; take it out of the file")
        counts[found] += 1
    return counts, wrong


@pytest.mark.heavy(10)
@pytest.mark.filterwarnings("ignore")
def test_a_part_of_the_suite() -> None:
    _, wrong = _run([case for number, case in enumerate(cases()) if number % 12 == 0])
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_whole_suite() -> None:
    counts, wrong = _run(cases())
    print(dict(counts))
    assert not wrong, "\n".join(wrong)
    assert counts["failed"] <= (1 - LEAST_PASSED) * counts.total()
    assert counts["compiled"] >= LEAST_COMPILED
