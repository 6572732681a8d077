"""The plugin that fails tests which use too much CPU time."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

CASES = """
from time import process_time
import pytest

def spend(seconds):
    began = process_time()
    while process_time() - began < seconds:
        pass

@pytest.fixture(scope="module")
def shared():
    spend(0.2)

def test_with_a_shared_fixture(shared):
    pass

def test_long():
    spend(0.2)

@pytest.mark.heavy(10)
def test_long_and_marked():
    spend(0.2)

@pytest.mark.heavy(0.05)
def test_beyond_its_mark():
    spend(0.2)

@pytest.mark.slow
def test_slow():
    spend(0.2)

paid = []

def test_that_pays_for_an_import():
    if not paid:
        spend(0.2)
    paid.append(True)

def test_that_fails_by_itself():
    assert not paid
"""

CONFTEST = """
import tests.support.cpu_budget as budget

budget.LIMIT_S = 0.1
budget.REFERENCE_S = 100.0  # this processor is not slower than that
"""


def test_tests_beyond_their_limit_are_errors(tmp_path: Path) -> None:
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    heavy: h\n    slow: s\n")
    times = tmp_path / "times"
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "tests.support.cpu_budget",
            "-p", "no:cacheprovider", "-p", "no:xdist", f"--cpu-times={times}", str(tmp_path),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert "1 failed, 6 passed, 2 errors" in done.stdout
    assert "::test_long uses" in done.stdout
    assert "::test_beyond_its_mark uses" in done.stdout
    assert "may use 0.05: make it faster, or mark it `heavy(seconds)`, or add it" in done.stdout
    measured = {line["test"]: line for line in map(json.loads, times.read_text().splitlines())}
    assert len(measured) == 7
    shared = measured["test_cases.py::test_with_a_shared_fixture"]
    assert shared["cpu_s"] < 0.1 < shared["shared_s"]
