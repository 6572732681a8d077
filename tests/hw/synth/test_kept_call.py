"""Answers of tools that tests keep."""

from pathlib import Path

import pytest

from tests.support.kept_call import PACKAGES, call


@pytest.mark.parametrize(
    ("tool", "status", "kept"),
    [
        ("import sys; print('said'); sys.exit(3)", 3, 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15, 0),
    ],
)
def test_a_call_that_was_ended_has_no_answer(
    tool: str, status: int, kept: int, tmp_path: Path
) -> None:
    pytest.importorskip(PACKAGES[0], reason="the extra `synth` is not installed")
    assert [call(tmp_path, tool, PACKAGES[0], "run_yosys") for _ in range(2)] == [status] * 2
    assert len(list(tmp_path.iterdir())) == kept
