"""The bench of synthesis: in which order it measures, which rows a file keeps, and its bars."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.codesign.area_alternatives import ALTERNATIVES, STREAMS
from bench.networks.unit_streams import unit_streams
from bench.synthesis import synth
from bench.synthesis.synth import BARS, ON_BOARD, main, merged, missed_of
from daedal.common.errors import ToolError
from daedal.hw.synth.families import Target
from daedal.hw.synth_pages.page import PAGE_TARGETS
from daedal.isa.variant import Variant, load_variant, shipped_variants


def row(variant: str, target: str, *, fits: bool = True, style: str = "packed") -> dict[str, Any]:
    shortfalls = [] if fits else [{"resource": "dsp"}]
    return {"variant": variant, "target": target, "multipliers": style, "shortfalls": shortfalls}


def test_what_was_measured_replaces_what_was_there() -> None:
    old = {
        "missed": ["vta does not fit"],
        "variants": [
            row("tiny", "ecp5-85f"),
            row("vta", "xc7z020", fits=False),
            row("vta", "xc7z020", style="old"),
            row("gone", "xc7z020"),
        ],
        "alternatives": [{"label": "as shipped"}],
    }
    new = {
        "missed": [],
        "variants": [row("vta", "xc7z020"), row("vta", "ecp5-85f"), row("int4", "xc7z020")],
    }
    assert merged(old, new) == {
        "missed": [],
        "variants": [
            row("tiny", "ecp5-85f"),
            row("vta", "ecp5-85f"),
            row("int4", "xc7z020"),
            row("vta", "xc7z020"),
        ],
        "alternatives": [{"label": "as shipped"}],
    }


def test_a_miss_that_was_not_measured_again_stays() -> None:
    old = {"missed": [], "variants": [row("vta", "xc7z020", fits=False)]}
    whole = merged(old, {"missed": [], "variants": [row("ecp5", "xc7z020", fits=False)]})
    assert whole["missed"] == ["vta does not fit an xc7z020"]  # ecp5 is for the other device


def test_one_form_that_fits_is_enough() -> None:
    forms = [row("ecp5", "ecp5-85f"), row("ecp5", "ecp5-85f", fits=False, style="lut")]
    assert missed_of(forms) == []
    assert missed_of(forms[1:]) == ["ecp5 does not fit an LFE5U-85F"]


def test_every_alternative_is_another_machine_with_the_same_work() -> None:
    vta = load_variant(ON_BOARD[0])
    machines = [alternative.of(vta) for alternative in ALTERNATIVES]
    assert machines[0] == vta
    assert len({machine.fingerprint for machine in machines}) == len(ALTERNATIVES) >= 4
    for machine in machines:
        assert {stream.name for stream in unit_streams(machine)} >= set(STREAMS)


def test_bars_are_about_shipped_variants() -> None:
    assert {name for name, _ in BARS} <= set(shipped_variants())
    assert {target for _, target in BARS} <= set(Target)
    assert ("vta", "xc7z020") in BARS and ("ecp5", "ecp5-85f") in BARS


class Tools:
    """Stand in for synthesis: answer at once, and fail or stop at a form when told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str, int]] = []
        self.raises: dict[str, BaseException] = {}
        self.packed_needs: dict[str, int] = {}
        self.board_mhz = 95.0
        self.board_error = ""

    def record(
        self, form: Variant, target: str, seeds: Sequence[int], report: Callable[[str], None]
    ) -> dict[str, Any]:
        style = form.array.multiplier_style
        self.asked.append((form.name, target, style, len(seeds)))
        if seeds and form.name in self.raises:
            raise self.raises[form.name]
        report("working")
        found = row(form.name, target, style=style) | {
            "family": "ecp5" if target == "ecp5-85f" else "xc7",
            "used": {"lut": 1000, "ff": 1, "dsp": 1, "block_ram": 1}
            | (self.packed_needs if style == "packed" else {}),
        }
        return found | {"fmax_mhz": 50.0 + len(seeds)} if seeds else found

    def board(
        self, clock_mhz: float, seeds: Sequence[int], _report: Callable[[str], None]
    ) -> dict[str, Any]:
        if self.board_error:
            raise ToolError(self.board_error)
        return row("ecp5", "ecp5-85f") | {
            "board": "ulx3s-85f",
            "memory_bytes": 1024,
            "fmax_mhz": self.board_mhz,
            "macs_per_cycle": 256,
            "seeds": dict.fromkeys(map(str, seeds), self.board_mhz),
            "clock_mhz": clock_mhz,
            "bitstream_bytes": 9,
            "bar": {"macs_per_cycle": 128, "mhz": 90.0},
            "met": self.board_mhz >= 90,
        }


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Tools:
    tools = Tools()
    monkeypatch.setattr(synth, "synthesis_record", tools.record)
    monkeypatch.setattr(synth, "resnet18_cycles", lambda _form, _report: {"cycles": 1_000_000})
    monkeypatch.setattr(synth, "board_record", tools.board)
    return tools


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["synth.py", *map(str, arguments)])
    return main()


def test_routes_come_last(
    tools: Tools,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "f.json"
    assert run(monkeypatch, "--only", "ecp5", "tiny", "--seeds", 2, "--json", path) == 0
    ecp5, xc7 = PAGE_TARGETS
    assert tools.asked == [
        ("ecp5", ecp5, "packed", 0),
        ("tiny", ecp5, "packed", 0),
        ("ecp5", xc7, "packed", 0),
        ("tiny", xc7, "dsp", 0),
        ("ecp5", ecp5, "packed", 2),
        ("tiny", ecp5, "packed", 2),
    ]
    data = json.loads(path.read_text())
    assert [record.get("fmax_mhz") for record in data["variants"]] == [52, 52, None, None]
    output = capsys.readouterr()
    assert "52.0" in output.out and "tiny, packed, ecp5-85f: working" in output.err


@pytest.mark.parametrize(
    ("needs", "styles"),
    [
        ({"dsp": 156}, ["packed"]),
        ({"dsp": 157}, ["packed", "lut"]),
        ({"dsp": 157, "block_ram": 209}, ["packed"]),  # logic instead of multipliers frees none
    ],
)
def test_logic_is_tried_where_only_multipliers_are_short(
    needs: dict[str, int], styles: list[str], tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.packed_needs = needs
    assert run(monkeypatch, "--only", "tiny", "--seeds", 0) == 0
    assert [style for _, target, style, _ in tools.asked if target == PAGE_TARGETS[0]] == styles


def test_a_stopped_run_leaves_what_it_has(
    tools: Tools,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, update = tmp_path / "f.json", tmp_path / "all.json"
    tools.raises["tiny"] = KeyboardInterrupt()
    assert run(monkeypatch, "--only", "ecp5", "tiny", "--json", path, "--update", update) == 130
    records = json.loads(path.read_text())["variants"]
    assert [record.get("fmax_mhz") for record in records] == [53, None, None, None]
    assert not update.exists()
    assert "the same command goes on from there" in capsys.readouterr().err


@pytest.mark.parametrize(("fmax_mhz", "status"), [(95.0, 0), (85.0, 1)])
def test_a_board_that_misses_its_clock(
    fmax_mhz: float,
    status: int,
    tools: Tools,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tools.board_mhz = fmax_mhz
    path = tmp_path / "f.json"
    assert run(monkeypatch, "--only", "ecp5", "--clock", 80, "--json", path) == status
    data = json.loads(path.read_text())
    assert (data["board"]["clock_mhz"], data["board"]["fmax_mhz"]) == (80, fmax_mhz)
    assert len(data["missed"]) == status
    output = capsys.readouterr().out
    assert f"reaches {fmax_mhz:.1f} MHz with 256 MACs/cycle" in output
    assert ("MISSED: The whole design" in output) is bool(status)


def test_a_board_that_cannot_be_built_ends_nothing_else(
    tools: Tools, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tools.board_error = "no way"
    assert run(monkeypatch, "--only", "ecp5") == 1
    assert "MISSED: `ecp5` could not be built for ulx3s-85f: no way" in capsys.readouterr().out
    assert len(tools.asked) == 3


def test_what_cannot_be_routed_is_a_miss(
    tools: Tools,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tools.raises["ecp5"] = ToolError("no way")
    assert run(monkeypatch, "--only", "ecp5", "tiny", "--json", tmp_path / "f.json") == 1
    assert "MISSED: ecp5 with packed multipliers: no way" in capsys.readouterr().out
    assert tools.asked[-1] == ("tiny", PAGE_TARGETS[0], "packed", 3)


def test_mistakes_end_in_a_sentence(
    tools: Tools, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        run(monkeypatch, "--seeds", -1)
    assert stop.value.code == 2
    assert "--seeds must be 0 or more, not -1" in capsys.readouterr().err
    assert run(monkeypatch, "--only", "nothing") == 2
    assert "bench/synthesis/synth.py: " in capsys.readouterr().err
    assert tools.asked == []
