"""Areas are kept: Yosys is asked once for the same design, script and version."""

import json
from pathlib import Path

import pytest

from daedal.common.errors import ToolError
from daedal.hw.synth import cache
from daedal.hw.synth.cache import AreaCache
from daedal.hw.synth.estimate import Synthesis
from daedal.hw.synth.families import CellReport, Family

CELLS = {"LUT6": 3, "FDRE": 2}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Family]]:
    """What Yosys was asked, in order; it always counts `CELLS`."""
    questions: list[tuple[str, Family]] = []

    def synthesize(verilog: str, family: Family, **_options: object) -> Synthesis:
        questions.append((verilog, family))
        cells = CELLS if family is Family.XC7 else {}
        return Synthesis(CellReport.of(family, cells), f"netlist of {verilog}")

    monkeypatch.setattr(cache, "synthesize", synthesize)
    return questions


def test_the_same_question_is_asked_once(tmp_path: Path, asked: list[tuple[str, Family]]) -> None:
    for _ in range(2):  # a new object each time: what is kept lies on disk
        report = AreaCache(tmp_path / "area").synthesize("module", Family.XC7)
        assert report == CellReport.of(Family.XC7, CELLS)
    assert asked == [("module", Family.XC7)]


def test_every_part_of_the_question_counts(
    tmp_path: Path, asked: list[tuple[str, Family]], monkeypatch: pytest.MonkeyPatch
) -> None:
    area = AreaCache(tmp_path)
    area.synthesize("module", Family.XC7)
    area.synthesize("module", Family.ECP5)
    area.synthesize("another", Family.XC7)
    assert len(asked) == 3
    monkeypatch.setattr(cache, "yosys_version", lambda: "another")
    area.synthesize("module", Family.XC7)
    monkeypatch.setattr(cache, "synthesis_script", lambda *_arguments: "another")
    area.synthesize("module", Family.XC7)
    assert len(asked) == 5


def test_resources_are_counted_by_the_table_of_today(
    tmp_path: Path, asked: list[tuple[str, Family]]
) -> None:
    """Cells alone are kept, not what they take."""
    area = AreaCache(tmp_path)
    area.synthesize("module", Family.XC7)
    (path,) = tmp_path.glob("*.json")
    kept = json.loads(path.read_text())
    assert kept.pop("sha256")
    assert kept == {"cells": dict(sorted(CELLS.items())), "units": {}}


def test_units_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = CellReport.of(Family.XC7, {"DSP48E1": 3}, {"alu": {"DSP48E1": 3}})
    answer = Synthesis(made, "netlist")
    monkeypatch.setattr(cache, "synthesize", lambda *_arguments, **_options: answer)
    for _ in range(2):
        assert AreaCache(tmp_path).synthesize("module", Family.XC7) == made


def test_the_netlist_is_of_the_same_answer(tmp_path: Path, asked: list[tuple[str, Family]]) -> None:
    area = AreaCache(tmp_path)
    area.synthesize("module", Family.ECP5)
    assert area.netlist("module", Family.ECP5) == "netlist of module"
    assert len(asked) == 1
    area.netlist("module", Family.ECP5, top="board")
    assert len(asked) == 2


def test_a_failure_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> Synthesis:
        raise ToolError("no")

    monkeypatch.setattr(cache, "synthesize", fail)
    for _ in range(2):
        with pytest.raises(ToolError, match="no"):
            AreaCache(tmp_path).synthesize("module", Family.XC7)
    assert list(tmp_path.glob("*.json")) == []


@pytest.mark.parametrize("suffix", [".json", ".netlist.gz"])
@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "missing"])
def test_damaged_answers_are_asked_for_again(
    tmp_path: Path, asked: list[tuple[str, Family]], suffix: str, damage: str
) -> None:
    area = AreaCache(tmp_path)
    area.synthesize("module", Family.XC7)
    (path,) = tmp_path.glob(f"*{suffix}")
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "flipped":  # a count, or a letter of the netlist
        at = data.index(b"3") if suffix == ".json" else len(data) // 2
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    else:
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else b"")
    for _ in range(2):
        assert area.synthesize("module", Family.XC7) == CellReport.of(Family.XC7, CELLS)
        assert area.netlist("module", Family.XC7) == "netlist of module"
    assert len(asked) == 2


def test_answers_of_before_there_were_hashes_are_read(
    tmp_path: Path, asked: list[tuple[str, Family]]
) -> None:
    area = AreaCache(tmp_path)
    area.synthesize("module", Family.XC7)
    (path,) = tmp_path.glob("*.json")
    path.write_text(json.dumps({"cells": CELLS, "units": {}}))
    assert area.synthesize("module", Family.XC7) == CellReport.of(Family.XC7, CELLS)
    assert len(asked) == 1
