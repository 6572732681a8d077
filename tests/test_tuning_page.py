"""docs/tuning.md: its commands and its Python run."""

from pathlib import Path

import pytest

from tests.support.pages import blocks, commands, make_checkout, run_line

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "tuning.md").read_text("utf-8")


def test_commands_run(tmp_path: Path) -> None:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    folder = make_checkout(tmp_path)
    printed = [run_line(line, folder) for line in commands(PAGE)]
    assert "layers alone:" in printed[0]
    assert (folder / "digits.db").is_file() and (folder / "digits.daedal").is_file()


def test_python_runs(tmp_path: Path) -> None:
    folder = make_checkout(tmp_path)
    for number, block in enumerate(blocks(PAGE, "python")):
        (folder / f"block{number}.py").write_text(block)
        run_line(f"python block{number}.py", folder)
