"""`bench.tuning.draws`: spaces are large, draws differ, and whatever fails is counted."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.tuning.draws import LEAST_PROGRAMS, TEMPLATES, VARIANTS, Draws, main
from daedal.compiler.ops.space import Config
from daedal.tuning.layer_runner import LayerRunner
from daedal.tuning.runner import Failure, Result

SMALL = {"stem"}
"""Templates with few schedules at any size."""


def test_spaces_have_500_programs() -> None:
    sizes = {name: Draws(name, "vta", 0).row.programs for name in TEMPLATES}
    assert {name for name, size in sizes.items() if size < LEAST_PROGRAMS} == SMALL


def test_each_space_is_drawn_from_without_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Config] = []
    results = LayerRunner.results

    def noted(self: LayerRunner, configs: Sequence[Config]) -> list[Result]:
        seen.extend(configs)
        return results(self, configs)

    monkeypatch.setattr(LayerRunner, "results", noted)
    path = tmp_path / "draws.json"
    assert main(["--only", "1x1 stride 2", "--draws", "3", "--json", str(path)]) == 0
    rows = json.loads(path.read_text())
    assert [(row["variant"], row["draws"], row["failures"]) for row in rows] == [
        (variant, 3, []) for variant in VARIANTS
    ]
    assert all(len(set(seen[at : at + 3])) == 3 for at in range(0, len(seen), 3))
    assert "12 draws from all 4, 0 failed" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Result.failed(Failure.WRONG, "other bytes"), "gave wrong bytes: other bytes"),
        (Result.failed(Failure.BUILD, "too large"), "does not build: too large"),
        (Result(1, "0"), "takes 1 cycles, less than its bound of"),
        (ValueError("a bug"), "ValueError: a bug"),
    ],
)
def test_whatever_fails_is_counted(
    answer: Result | Exception,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def answered(_self: LayerRunner, _configs: Sequence[Config]) -> list[Result]:
        if isinstance(answer, Exception):
            raise answer
        return [answer]

    monkeypatch.setattr(LayerRunner, "results", answered)
    assert main(["--only", "dense", "--draws", "1"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert words in out and "4 draws from all 4, 4 failed" in out
