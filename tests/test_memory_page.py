"""docs/memory.md: its table is what the cycle model counts, and its files and commands work."""

import re
from pathlib import Path

import pytest

from bench.networks.memory_page import with_memory_section
from daedal.isa.memory_file import load_memory
from daedal.isa.memory_model import PRESETS
from tests.support.pages import blocks, commands, make_checkout, run_line

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")


@pytest.mark.heavy(2)
def test_the_table_is_what_the_cycle_model_counts() -> None:
    assert with_memory_section(PAGE) == PAGE, "run `make docs`"


def test_every_preset_is_described() -> None:
    described = re.findall(r"^\| `(\w+)` \| [^|]+ \|$", PAGE, re.MULTILINE)
    assert described == list(PRESETS)


def test_commands_and_python_run_with_the_files_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make_checkout(tmp_path))
    for text in blocks(PAGE, "toml"):
        name = text.partition("\n")[0].removeprefix("# ")
        (tmp_path / name).write_text(text)
        assert load_memory(name).name == name.removesuffix(".toml")
    for command in commands(PAGE):
        run_line(command, tmp_path)
    (code,) = blocks(PAGE, "python")
    exec(compile(code, "docs/memory.md", "exec"), {})  # noqa: S102 our own page
