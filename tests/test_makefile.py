"""What `make test` and `.ci/run` call."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CI = (ROOT / ".ci" / "run").read_text("utf-8")


def dry_run(target: str) -> str:
    """The commands of a target, and of the targets that it makes."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("needs GNU make")
    done = subprocess.run(
        [make, "-n", "--no-print-directory", target],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_lint_is_a_target_that_the_tests_call() -> None:
    lint = dry_run("lint")
    tools = ("ruff check", "ruff format --check", "mypy", "lint-imports")
    assert all(tool in lint for tool in tools)
    assert "pytest" not in lint
    test = dry_run("test")
    assert all(tool in test for tool in tools)
    assert re.search(r"pytest .*-m \"not slow\" -p tests\.support\.cpu_budget", test)


def test_slow_tests_have_shards_that_check_style_first() -> None:
    shard = dry_run("test-shard-of-the-day")
    number, shards = map(int, re.findall(r"--shard (\d+)/(\d+)", shard)[0])
    assert 1 <= number <= shards
    assert shard.index("ruff check") < shard.index("--shard")


def test_the_integration_calls_the_command_of_the_readme_and_a_shard() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert re.search(r"^make test +#", readme, re.MULTILINE)
    calls = re.findall(r"^(?:exec )?make (test\S*)", CI, re.MULTILINE)
    assert calls == ["test", "test-shard-of-the-day"]
    assert "set -euo pipefail" in CI, "a failure of the first ends it"
    assert re.search(r"^export DAEDAL_CI=1$", CI, re.MULTILINE), "skips are errors"
