"""Verilog to a routed design by the real tools, and again from what was kept."""

from pathlib import Path

import pytest

from daedal.hw.synth import routes, tools
from daedal.hw.synth.cache import AreaCache
from daedal.hw.synth.families import CellReport, Family
from daedal.hw.synth.flow import Implementation, implement
from daedal.hw.synth.place import PlaceRequest, Routed
from daedal.hw.synth.routes import RouteCache
from daedal.isa.variant import load_variant
from tests.support.small_netlist import SMALL, needs_nextpnr

pytestmark = [pytest.mark.fpga, pytest.mark.xdist_group("small-netlist")]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Implementation, list[str]]:
    """Where two seeds were kept, what came out, and what was told."""
    folder = tmp_path_factory.mktemp("synth")
    told: list[str] = []
    requests = [PlaceRequest(seed=seed) for seed in (1, 2)]
    made = implement(
        load_variant("tiny"),
        SMALL,
        Family.ECP5,
        folder,
        requests=requests,
        num_processes=2,
        progress=told.append,
    )
    return folder, made, told


@needs_nextpnr
def test_steps_are_told(kept: tuple[Path, Implementation, list[str]]) -> None:
    _, made, told = kept
    mapping = next(text for text in told if "translating" not in text)
    assert mapping.startswith("mapping to ecp5, begin (1 of ")
    assert any(text.startswith("seed 1 ") and "; seed 2 " in text for text in told)
    fmax = {routed.request.seed: routed.slowest_mhz for routed in made.routes}
    assert told[-1] == f"seed 1 done, {fmax[1]:.1f} MHz; seed 2 done, {fmax[2]:.1f} MHz"


@needs_nextpnr
def test_the_best_seed_counts(kept: tuple[Path, Implementation, list[str]]) -> None:
    _, made, _ = kept
    assert made.best is not None
    assert made.best.slowest_mhz == max(routed.slowest_mhz for routed in made.routes)
    assert made.used["dsp"] == made.report.dsp == 1
    assert made.used["ff"] == made.report.ff == 32
    assert made.used["lut"] >= made.report.lut
    for resource, used in made.used.items():
        if resource != "lut":  # the placer adds some
            assert sum(unit[resource] for unit in made.report.unit_resources.values()) == used


@needs_nextpnr
def test_a_second_run_asks_no_tool(
    kept: tuple[Path, Implementation, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, made, _ = kept
    monkeypatch.setattr(tools, "_start", lambda *_arguments: pytest.fail("a tool was asked"))
    requests = [PlaceRequest(seed=seed) for seed in (2, 1)]
    again = implement(load_variant("tiny"), SMALL, Family.ECP5, folder, requests=requests)
    assert again.routes == made.routes[::-1]
    assert again.report == made.report


@needs_nextpnr
def test_a_clock_is_missed_by_the_best(kept: tuple[Path, Implementation, list[str]]) -> None:
    folder, made, _ = kept
    assert made.best is not None
    for difference, missed in ((-0.001, False), (0.001, True)):
        again = implement(
            load_variant("tiny"),
            SMALL,
            Family.ECP5,
            folder,
            requests=[PlaceRequest(seed=seed) for seed in (1, 2)],
            asked_mhz=made.best.slowest_mhz + difference,
        )
        assert (again.missed is not None) == missed == (not again.succeeded)
    assert again.missed is not None and "the worst path is counter -> square: " in again.missed


@needs_nextpnr
def test_no_seed_is_routed_after_one_that_meets_the_clock(
    kept: tuple[Path, Implementation, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, made, _ = kept
    monkeypatch.setattr(tools, "_start", lambda *_arguments: pytest.fail("a tool was asked"))
    requests = [PlaceRequest(seed=seed) for seed in (3, 1, 2)]
    again = implement(
        load_variant("tiny"),
        SMALL,
        Family.ECP5,
        folder,
        requests=requests,
        asked_mhz=1.0,
        until_met=True,
    )
    assert again.routes == made.routes
    assert again.given_up == ()


@needs_nextpnr
def test_a_seed_without_a_result_is_given_up(
    kept: tuple[Path, Implementation, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, made, _ = kept
    monkeypatch.setattr(routes, "place_and_route_all", lambda *_, **__: (_ for _ in ()))
    requests = [PlaceRequest(seed=seed) for seed in (1, 3, 2)]
    again = implement(load_variant("tiny"), SMALL, Family.ECP5, folder, requests=requests)
    assert again.routes == made.routes
    assert again.given_up == (3,)


@pytest.mark.parametrize(("lut", "by_timing"), [(41_000, True), (42_000, False)])
def test_a_dense_design_is_placed_by_wire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, lut: int, by_timing: bool
) -> None:
    report = CellReport(Family.ECP5, dsp=0, block_ram=0, lut=lut, ff=0, carry=0, cells={})
    asked: list[PlaceRequest] = []

    def route(
        _cache: RouteCache, _netlist: str, requests: list[PlaceRequest], **_options: object
    ) -> list[Routed]:
        asked.extend(requests)
        return []

    monkeypatch.setattr(AreaCache, "synthesize", lambda *_args, **_options: report)
    monkeypatch.setattr(AreaCache, "netlist", lambda *_args, **_options: "")
    monkeypatch.setattr(RouteCache, "route", route)
    monkeypatch.setattr(type(tools.NEXTPNR), "require", lambda *_args: None)
    requests = [PlaceRequest(timing_driven=True), PlaceRequest(seed=2)]
    implement(load_variant("tiny"), SMALL, Family.ECP5, tmp_path, requests=requests)
    assert [request.timing_driven for request in asked] == [by_timing, False]
