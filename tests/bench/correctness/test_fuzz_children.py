"""Random models in child processes: what is said of those that end, hang or crash."""

import sys
from pathlib import Path

import pytest

from bench.correctness.fuzz_children import report, results_of_children

ENDS = """
echo '{"started": 7}'
echo '{"seed": 7, "failure": ""}'
echo '{"started": 8}'
echo '{"seed": 8, "failure": "off by 3"}'
"""
DIES = """
# --child --seed S --count N
echo "{\\"started\\": $4}"
kill -9 $$
"""
HANGS = """
echo "{\\"started\\": $4}"
exec sleep 60
"""


@pytest.mark.parametrize(
    ("script", "failures"),
    [
        (ENDS, ["", "off by 3"]),
        (DIES, ["the process ended with -9"] * 2),
        (HANGS, ["no result after 0.3 s"] * 2),
    ],
    ids=["ends", "dies", "hangs"],
)
def test_every_seed_has_a_result(
    script: str, failures: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh{script}")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    results = list(results_of_children("bench.py", [], 7, 2, 0.3))
    assert [result["seed"] for result in results] == [7, 8]
    assert [result["failure"] for result in results] == failures


def test_a_child_that_fails_without_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(SystemExit, match="ended with 3"):
        list(results_of_children("bench.py", [], 7, 2, 5))


def test_what_a_child_prints(capsys: pytest.CaptureFixture[str]) -> None:
    report(range(2), lambda seed: {"seed": seed, "failure": ""})
    assert capsys.readouterr().out.splitlines()[:2] == [
        '{"started": 0}',
        '{"seed": 0, "failure": ""}',
    ]
