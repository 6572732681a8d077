"""``daedal synth``: tables, record, exit status, what a miss is answered with, what is asked."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import daedal
from daedal.commands.synth import Multipliers
from daedal.common.errors import CapacityError, UserError
from daedal.hw.emit import TOP_MODULE
from daedal.hw.synth import tools
from daedal.hw.synth.cache import AreaCache, yosys_version
from daedal.hw.synth.families import CellReport, Family, Target
from daedal.hw.synth.paths import TimingPath
from daedal.hw.synth.place import PlaceRequest, Routed
from daedal.hw.synth.routes import RouteCache
from daedal.isa.variant import MultiplierStyle, load_variant
from daedal.reports.synthesis import synthesis_record
from daedal.sim.rtl import verilog
from tests.support.command_line import Run, refuses
from tests.support.small_netlist import needs_nextpnr

XC7_CELLS = {"DSP48E1": 110, "RAMB36E1": 3, "RAMB18E1": 1, "LUT6": 5_320, "FDRE": 53_200}
UNITS = {
    "wgt": {"RAMB36E1": 3, "RAMB18E1": 1},
    "gemm": {"DSP48E1": 110, "LUT6": 5_000, "FDRE": 53_200},
    "alu": {"LUT6": 320},
}
ECP5_CELLS = {"LUT4": 1_000, "CCU2C": 10, "TRELLIS_FF": 836, "MULT18X18D": 8}

Give = Callable[..., None]


@pytest.fixture(autouse=True)
def no_tools(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that is not for tools starts none, whatever is wrong, and emits nothing."""
    if request.node.get_closest_marker("fpga") is None:
        monkeypatch.setattr(verilog, "kept_verilog", lambda *_arguments, **_options: "module")
        monkeypatch.setattr(tools.Tool, "require", lambda *_arguments: pytest.fail("a tool"))


@pytest.fixture
def estimate(monkeypatch: pytest.MonkeyPatch) -> Give:
    """Let Yosys count the given cells, whatever it is asked; the answer is not kept."""

    def give(cells: dict[str, int], units: dict[str, dict[str, int]]) -> None:
        def synthesize(
            _self: AreaCache,
            _verilog: str,
            family: Family,
            *,
            top: str,
            progress: Callable[[str], None],
        ) -> CellReport:
            assert top == TOP_MODULE
            progress("xc7: begin (1 of 2)")
            progress("xc7: end (2 of 2)")
            return CellReport.of(family, cells, units)

        monkeypatch.setattr(AreaCache, "synthesize", synthesize)
        monkeypatch.setattr(AreaCache, "netlist", lambda *_arguments, **_options: "netlist")

    return give


@pytest.fixture
def route(monkeypatch: pytest.MonkeyPatch, estimate: Give) -> list[tuple[PlaceRequest, int]]:
    """Let nextpnr reach 90 MHz and one more for each seed; gives what it was asked."""
    estimate(ECP5_CELLS, {"gemm": ECP5_CELLS})
    asked: list[tuple[PlaceRequest, int]] = []

    def answer(
        _self: RouteCache,
        _netlist: str,
        requests: Sequence[PlaceRequest],
        *,
        num_processes: int,
        enough_mhz: float,
        progress: Callable[[str], None],
    ) -> list[Routed]:
        assert enough_mhz == math.inf  # the best of all seeds is reported
        progress("seed 1 packing")
        asked.extend((request, num_processes) for request in requests)
        return [routed_of(request) for request in requests]

    monkeypatch.setattr(tools.Tool, "require", lambda *_arguments: None)
    monkeypatch.setattr(RouteCache, "route", answer)
    return asked


def routed_of(request: PlaceRequest) -> Routed:
    path = TimingPath(
        start="gemm.operand", end="accumulators.bank0.0.1", start_clock="clk", end_clock="clk",
        modules=("gemm", "", "accumulators.bank0"), signals=("gemm.operand[3]", "sum[1]"),
        levels=4, logic_ns=3.0, routing_ns=1000 / (90 + request.seed) - 3,
    )  # fmt: skip
    return Routed(
        request=request,
        fmax_mhz={"clk": 90.0 + request.seed},
        paths=(path,),
        utilization={"TRELLIS_COMB": (1_100, 83_640), "MULT18X18D": (8, 156)},
        config=None,
    )


def test_styles_are_the_variants() -> None:
    assert {style.value for style in Multipliers} == {style.value for style in MultiplierStyle}


def test_an_estimate(run: Run, estimate: Give) -> None:
    estimate(XC7_CELLS, UNITS)
    status, out, err = run("synth", "tiny", "--fpga", "xc7z020")
    assert status == 0
    rows = [line.split() for line in out.splitlines()]
    assert "tiny on xc7z020: an estimate by Yosys, neither placed nor routed" in out
    for row in (
        ["LUT", "5,320", "53,200", "10.0"],
        ["FF", "53,200", "106,400", "50.0"],
        ["DSP", "110", "220", "50.0"],
        ["block", "RAM", "3.5", "140", "2.5"],
        ["gemm", "110", "0", "5,000", "53,200", "94.0"],
        ["alu", "0", "0", "320", "0", "6.0"],
        ["wgt", "0", "3.5", "0", "0", "0.0"],
    ):
        assert row in rows
    assert err.splitlines()[-1:] == ["estimating variant tiny on xc7z020"]
    assert "does not fit" not in out and "MHz" not in out


def test_record_of_an_estimate(run: Run, estimate: Give) -> None:
    estimate(XC7_CELLS, UNITS)
    status, out, _ = run("synth", "tiny", "--fpga", "xc7z020", "--json")
    record: dict[str, Any] = json.loads(out)
    assert status == 0
    assert record["fingerprint"] == load_variant("tiny").fingerprint
    assert (record["yosys"], record["nextpnr"]) == (yosys_version(), None)
    assert record["resources"]["dsp"] == {"used": 110, "available": 220, "share": 0.5}
    assert record["units"]["gemm"] == {"dsp": 110, "block_ram": 0, "lut": 5_000, "ff": 53_200}
    assert (record["fits"], record["shortfalls"]) == (True, [])
    assert (record["fmax_mhz"], record["paths"], record["missed"]) == (None, [], None)


@pytest.mark.parametrize("arguments", [("ecp5-85f", "--estimate"), ("xczu3eg",)])
def test_an_estimate_routes_nothing(
    run: Run, route: list[tuple[PlaceRequest, int]], estimate: Give, arguments: tuple[str, ...]
) -> None:
    estimate({}, {})
    status, out, _ = run("synth", "tiny", "--fpga", *arguments)
    assert (status, route) == (0, [])
    assert "an estimate by Yosys" in out


def test_what_does_not_fit_exits_with_one(run: Run, estimate: Give) -> None:
    estimate(XC7_CELLS | {"DSP48E1": 219}, UNITS)
    sentence = "DSP must be at most 209, not 219 (10 too many); "
    status, out, _ = run("synth", "tiny", "--fpga", "xc7z020")
    assert status == 1
    assert out.splitlines()[-1].startswith(f"does not fit: {sentence}multiplier_style")
    status, out, _ = run("synth", "tiny", "--fpga", "xc7z020", "--json")
    record = json.loads(out)
    assert (status, record["fits"]) == (1, False)
    assert [text.startswith(sentence) for text in record["shortfalls"]] == [True]


def test_what_is_too_large_is_not_routed(
    run: Run, route: list[tuple[PlaceRequest, int]], estimate: Give
) -> None:
    """Routing may take all of a device, not the 95 % of an estimate."""
    estimate(ECP5_CELLS | {"MULT18X18D": 156}, {})
    assert run("synth", "tiny", "--fpga", "ecp5-85f")[0] == 0
    assert len(route) == 1
    estimate(ECP5_CELLS | {"MULT18X18D": 157}, {})
    status, out, _ = run("synth", "tiny", "--fpga", "ecp5-85f")
    assert status == 1
    assert len(route) == 1
    assert "does not fit: DSP must be at most 156, not 157 (1 too many); " in out


def test_what_the_placer_has_no_room_for(
    run: Run, route: list[tuple[PlaceRequest, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_options: object) -> list[Routed]:
        raise CapacityError("no", "lut", 84_000)

    monkeypatch.setattr(RouteCache, "route", refuse)
    status, out, _ = run("synth", "tiny", "--fpga", "ecp5-85f")
    assert status == 1
    assert "does not fit: LUT must be at most 83,640, not 84,000 (360 too many); what takes" in out
    assert ["LUT", "84,000", "83,640", "100.4"] in [line.split() for line in out.splitlines()]


def test_the_best_seed_is_reported(run: Run, route: list[tuple[PlaceRequest, int]]) -> None:
    status, out, err = run("synth", "tiny", "--fpga", "ecp5-85f", "--seeds", 3, "--jobs", 2)
    assert status == 0
    assert [(request.seed, jobs) for request, jobs in route] == [(1, 2), (2, 2), (3, 2)]
    assert {request.package for request, _ in route} == {"CABGA381"}
    assert {request.speed_grade for request, _ in route} == {6}
    rows = [line.split() for line in out.splitlines()]
    assert "placed and routed out of context, CABGA381, speed grade 6" in out
    assert ["clk", "91.00", "92.00", "93.00"] in rows
    assert "Worst paths of seed 3, in ns" in out
    assert ["LUT", "1,100", "83,640", "1.3"] in rows
    assert ["gemm", "8", "0", "1,020", "836", "100.0"] in rows
    route_of_path = ["gemm", "->", "daedal_top", "->", "accumulators.bank0"]
    ends = ["gemm.operand", "accumulators.bank0.0.1"]
    assert [*route_of_path, *ends, "4", "3.00", "7.75", "10.75"] in rows
    assert err.splitlines()[-1:] == ["synthesizing variant tiny on ecp5-85f"]


def test_a_seed_that_is_given_up(
    run: Run, route: list[tuple[PlaceRequest, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = RouteCache.route
    monkeypatch.setattr(RouteCache, "route", lambda *words, **more: answer(*words, **more)[1:])
    command = ("synth", "tiny", "--fpga", "ecp5-85f", "--seeds", 2)
    status, out, _ = run(*command)
    assert status == 0
    assert out.splitlines()[-1].startswith("given up: seed 1; the router needs much longer")
    assert ["clk", "92.00"] in [line.split() for line in out.splitlines()]
    assert json.loads(run(*command, "--json")[1])["given_up"] == [1]


def test_a_clock_that_is_reached(run: Run, route: list[tuple[PlaceRequest, int]]) -> None:
    status, out, _ = run("synth", "tiny", "--fpga", "ecp5-85f", "--freq", 91)
    assert status == 0
    assert "too slow" not in out
    assert [request.target_mhz for request, _ in route] == [91.0]


def test_a_clock_that_is_missed(run: Run, route: list[tuple[PlaceRequest, int]]) -> None:
    command = ("synth", "tiny", "--fpga", "ecp5-85f", "--freq", "92.5", "--seeds", 2)
    sentence = (
        "the clock must reach 92.5 MHz, not 92.00 MHz (the best of 2 seeds); the worst path is "
        "gemm -> daedal_top -> accumulators.bank0: from gemm.operand to accumulators.bank0.0.1, "
        "10.87 ns (3.00 logic, 7.87 routing, 4 levels)"
    )
    status, out, _ = run(*command)
    assert status == 1
    assert out.splitlines()[-1] == f"too slow: {sentence}"
    status, out, _ = run(*command, "--json")
    record = json.loads(out)
    assert (status, record["missed"], record["fits"]) == (1, sentence, True)
    assert record["seeds"] == [
        {"seed": 1, "fmax_mhz": {"clk": 91.0}},
        {"seed": 2, "fmax_mhz": {"clk": 92.0}},
    ]
    assert record["paths"][0]["signals"] == ["gemm.operand[3]", "sum[1]"]


def test_a_page(run: Run, route: list[tuple[PlaceRequest, int]], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    command = ("synth", "tiny", "--fpga", "ecp5-85f", "--html")
    status, out, err = run(*command, page)
    assert status == 0
    assert err.splitlines()[-1] == f"wrote {page}"
    assert "<b>91.00 MHz</b>clk" in page.read_text()
    assert "91.00" in out
    refuses(run(*command, tmp_path / "missing" / "page.html"), "an output must be a file in a")
    assert len(route) == 1  # refused before the work, not after


def test_multipliers_of_another_style(run: Run, route: list[tuple[PlaceRequest, int]]) -> None:
    fingerprints = set()
    for style in MultiplierStyle:
        status, out, _ = run(
            "synth", "tiny", "--fpga", "ecp5-85f", "--multipliers", style.value, "--json"
        )
        record = json.loads(out)
        assert (status, record["multiplier_style"]) == (0, style.value)
        fingerprints.add(record["fingerprint"])
    assert len(fingerprints) == 3


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("huge", "--fpga", "xc7z020"), ("a variant is one of", "'huge'")),
        (
            ("tiny", "--fpga", "xc7z020", "--freq", "90"),
            ("only ecp5-85f has", "leave clock and seeds out (xc7z020)"),
        ),
        (("tiny", "--fpga", "xczu3eg", "--seeds", "2"), ("only ecp5-85f has",)),
        (("tiny", "--fpga", "ecp5-85f", "--estimate", "--freq", "9"), ("without an estimate",)),
        (
            ("tiny", "--fpga", "ecp5-85f", "--freq", "0"),
            ("a clock must be more than 0 and at most 1000 MHz, not 0",),
        ),
    ],
)
def test_refusals(run: Run, arguments: tuple[str, ...], parts: tuple[str, ...]) -> None:
    refuses(run("synth", *arguments), *parts)


def test_the_function_is_the_command(
    run: Run, route: list[tuple[PlaceRequest, int]], tmp_path: Path
) -> None:
    said: list[str] = []
    found = daedal.synth("tiny", "ecp5-85f", mhz=95.5, seeds=3, report=said.append)
    asked = [request for request, _ in route]
    assert [request.seed for request in asked] == [1, 2, 3]
    assert {request.target_mhz for request in asked} == {95.5}
    assert said[0] == "synthesizing variant tiny on ecp5-85f"
    status, out, _ = run(
        "synth", "tiny", "--fpga", "ecp5-85f", "--freq", "95.5", "--seeds", "3", "--json"
    )
    assert json.loads(out) == synthesis_record(found, "ecp5-85f")
    assert status == (0 if found.succeeded else 1)
    assert not daedal.synth(load_variant("tiny"), "ecp5-85f", estimate=True).routes
    for target, more, words in (
        ("ecp5", {}, "an FPGA must be one of xc7z020, xczu3eg, ecp5-85f, not 'ecp5'"),
        ("ecp5-85f", {"seeds": 0}, "seeds must be at least 1, not 0"),
    ):
        with pytest.raises(UserError, match=words):
            daedal.synth("tiny", target, **more)


def test_an_unknown_device(run: Run) -> None:
    refuses(run("synth", "tiny", "--fpga", "xc7z045"), "--fpga must be one of", "'xc7z045'")


@pytest.mark.fpga
@pytest.mark.slow
@needs_nextpnr
def test_the_smallest_variant_fits_every_device(run: Run) -> None:
    for target in Target:
        status, out, err = run("synth", "tiny", "--fpga", target.value, "--estimate", "--json")
        assert status == 0, err
        record = json.loads(out)
        for resource in record["resources"]:
            by_unit = sum(unit[resource] for unit in record["units"].values())
            assert by_unit == record["resources"][resource]["used"] > 0
