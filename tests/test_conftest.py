"""The test session's own rules: skips in CI, golden texts, seeds."""

import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent

SKIPS = """
import pytest

def test_tool():
    pytest.skip("Icarus is not installed")

def test_shared():
    pytest.skip("needs the models in ../shared, which is not there")

def test_large_package():
    pytest.skip("needs PyTorch")

@pytest.mark.xfail(reason="a known fault")
def test_known_fault():
    raise ValueError
"""

MODULE_SKIP = """
import pytest

pytest.skip("Icarus is not installed", allow_module_level=True)
"""


def run_pytest(folder: Path, source: str, *options: str, ci: bool) -> tuple[int, str]:
    """Run `source` as a test file in `folder`, beside a copy of this project's conftest."""
    shutil.copy(Path(__file__).with_name("conftest.py"), folder / "conftest.py")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_case.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *options],
        cwd=folder,
        env={**os.environ, "DAEDAL_CI": "1" if ci else "0", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout


def test_skips_pass_on_a_developers_machine(tmp_path: Path) -> None:
    status, output = run_pytest(tmp_path, SKIPS, ci=False)
    assert status == 0
    assert "3 skipped, 1 xfailed" in output


def test_missing_tool_fails_in_ci(tmp_path: Path) -> None:
    status, output = run_pytest(tmp_path, SKIPS, ci=True)
    assert status == 1
    assert "1 failed, 2 skipped, 1 xfailed" in output
    assert "Icarus is not installed" in output


def test_skipped_module_fails_in_ci(tmp_path: Path) -> None:
    status, output = run_pytest(tmp_path, MODULE_SKIP, ci=True)
    assert status != 0
    assert "Icarus is not installed" in output


def test_golden_text(tmp_path: Path) -> None:
    source = "def test_text(golden):\n    golden('folder/text.txt', 'one\\n')\n"
    status, output = run_pytest(tmp_path, source, ci=False)
    assert status == 1
    assert "tests/golden/folder/text.txt does not exist" in output

    assert run_pytest(tmp_path, source, "--update-golden", ci=False)[0] == 0
    assert (tmp_path / "golden/folder/text.txt").read_text() == "one\n"
    assert run_pytest(tmp_path, source, ci=False)[0] == 0

    # Of another length: pytest compiles a file again if its size or the second of its time differ.
    status, output = run_pytest(tmp_path, source.replace("one", "three"), ci=False)
    assert status == 1
    assert "tests/golden/folder/text.txt differs" in output


def test_seed_is_shown_and_stable(tmp_path: Path) -> None:
    source = "def test_value(rng):\n    raise ValueError(rng.integers(1 << 30))\n"
    first = run_pytest(tmp_path, source, ci=False)[1]
    second = run_pytest(tmp_path, source, ci=False)[1]
    assert "seed " in first
    value = next(line for line in first.splitlines() if line.startswith("E ") and "Value" in line)
    assert value in second


@pytest.mark.parametrize("case", [0, 1])
def test_seed_follows_the_test_name(case: int, seed: int, rng: np.random.Generator) -> None:
    first_draws = [np.random.default_rng(s).integers(1 << 30) for s in (seed, seed ^ 1)]
    drawn = rng.integers(1 << 30)
    assert drawn == first_draws[0]
    assert drawn != first_draws[1]


@pytest.mark.xdist_group("kept-together")
def test_a_group_is_kept_together(request: pytest.FixtureRequest) -> None:
    """pytest-xdist sends tests to one worker by what it appends to their names; without it, workers
    wait for each other's builds."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert request.node.nodeid.endswith("@kept-together")


def test_a_file_is_kept_together(request: pytest.FixtureRequest, seed: int) -> None:
    """So are the quick tests of a file, for its fixtures; seeds are those of one process."""
    name = "tests/test_conftest.py::test_a_file_is_kept_together"
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert request.node.nodeid == f"{name}@tests/test_conftest.py"
    assert seed == zlib.crc32(name.encode())
