"""`daedal explore --objective latency,area,energy`: front, table, page and folder."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from daedal.codesign import explore as explore_module
from daedal.codesign.cycles.counting import Counter, Network, count_networks, profile_network
from daedal.codesign.cycles.energy import switched_energy
from daedal.codesign.cycles.work import Counts, Work
from daedal.codesign.hardware.area import area_model
from daedal.codesign.search import evaluator, front_search
from daedal.codesign.search.evaluation import from_json
from daedal.codesign.search.objectives import Objective
from daedal.isa.variant import Variant
from daedal.sim.rtl import verilog
from tests.support.command_line import Answer, Run, refuses

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_qdq.onnx"
OPTIONS = ("--fpga", "ecp5-85f", "--clock", 100, "--workers", 1)
COUNT = 3


class CheapCycles:
    """In no time; the real estimates are tested in `test_analytic`."""

    def __init__(self, *_given: object) -> None:
        pass

    def __call__(self, variant: Variant) -> float:
        return 1e6 / variant.macs_per_cycle + 1e7 / variant.memory.wgt_bytes


class CheapWork(CheapCycles):
    """In no time; the real estimates are tested in `test_energy`."""

    asked = 0

    def __call__(self, variant: Variant) -> Any:
        CheapWork.asked += 1
        return Work(4e5 / variant.macs_per_cycle, 3_600.0, 3_000.0, 500.0)


Count = Callable[[Mapping[str, Network], Variant, str], Counts | None]


def made_up(networks: Mapping[str, Network], variant: Variant, _memory: str) -> Counts:
    """Counts in no time."""
    work = Work(5e5 / variant.macs_per_cycle, 3_600.0, 4_000.0, 500.0)
    return Counts(dict.fromkeys(networks, 9_000.0), dict.fromkeys(networks, work))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was counted; a scaled-down search without workers and without Verilog."""
    return _scaled_down(monkeypatch, count_networks)


@pytest.fixture
def counted_fast(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As `counted`, with made-up counts and nothing compiled for the front."""
    monkeypatch.setattr(explore_module, "_complete", lambda *_given: iter(()))
    return _scaled_down(monkeypatch, made_up)


def _scaled_down(monkeypatch: pytest.MonkeyPatch, count_one: Count) -> list[str]:
    found: list[str] = []

    @contextmanager
    def counters(networks: Mapping[str, Network], memory: str, _workers: int) -> Iterator[Counter]:
        def count(variants: Sequence[Variant]) -> Iterator[tuple[int, Counts | None]]:
            for number, variant in enumerate(variants):
                found.append(variant.fingerprint)
                yield number, count_one(networks, variant, memory)

        yield count

    CheapWork.asked = 0
    monkeypatch.setattr(explore_module, "counters", counters)
    monkeypatch.setattr(evaluator, "AnalyticCycles", CheapCycles)
    monkeypatch.setattr(evaluator, "EstimatedWork", CheapWork)
    monkeypatch.setattr(front_search, "_BREEDING", 4)
    monkeypatch.setattr(verilog, "kept_verilog", lambda *_given, **_named: "module daedal_top;")
    return found


def explored(run: Run, folder: Path, objectives: str, *options: object) -> Answer:
    given = ("--objective", objectives, "--evaluations", COUNT, "-o", folder, *options)
    return run("explore", DIGITS, *OPTIONS, *given)


def test_three_objectives(run: Run, tmp_path: Path, counted: list[str]) -> None:
    folder = tmp_path / "found"
    status, out, err = explored(run, folder, "latency,area,energy")
    assert status == 0, err
    assert "energy, relative" in out and "nothing of it was measured" in out
    lines = (folder / "evaluations.jsonl").read_text().splitlines()
    items = [from_json(made) for line in lines if (made := json.loads(line)["evaluation"])]
    assert len(lines) == COUNT and CheapWork.asked > COUNT
    # By definition: nothing is better in one objective and no worse in the others.
    values = {
        item.variant.name: [item.value(objective) for objective in Objective] for item in items
    }
    wanted = {
        name
        for name, own in values.items()
        if not any(
            other != own and all(a <= b for a, b in zip(other, own, strict=True))
            for other in values.values()
        )
    }
    front = [from_json(item) for item in json.loads((folder / "front.json").read_text())]
    assert {item.variant.name for item in front} <= wanted
    assert sorted({tuple(values[name]) for name in wanted}) == [
        tuple(values[item.variant.name]) for item in front
    ]
    rows = list(csv.DictReader((folder / "front.csv").read_text().splitlines()))
    for item, row in zip(front, rows, strict=True):
        # Again, from the profile that `daedal profile` shows.
        profile = profile_network(DIGITS.read_bytes(), item.variant, "ddr")
        parts = area_model(item.family).by_part(item.variant)
        energy = switched_energy(Work.of(profile), profile.cycles, parts, item.variant).total
        assert float(row["energy"]) == pytest.approx(energy)
        predicted = json.loads(
            (folder / "points" / item.variant.name / "predicted.json").read_text()
        )
        assert predicted["energy"] == pytest.approx(energy)
        assert any(step["energy"] is not None for step in predicted["steps"])
    page = (folder / "index.html").read_text()
    assert page.count("<th>energy</th>") == 1 + len(front)
    assert page.count("% of the device; energy ") == len({item.variant.name for item in items})
    # The same command finds the same, and counts nothing.
    counted.clear()
    asked = CheapWork.asked
    before = (folder / "front.json").read_text()
    status, _, err = explored(run, folder, "latency,area,energy")
    assert status == 0, err
    assert (folder / "front.json").read_text() == before
    assert not counted and CheapWork.asked == asked


def test_without_the_objective_nothing_is_estimated_for_it(
    run: Run, tmp_path: Path, counted_fast: list[str]
) -> None:
    status, _, err = explored(run, tmp_path / "found", "latency,area")
    assert status == 0, err
    assert counted_fast and CheapWork.asked == 0
    estimates = (tmp_path / "found" / "estimates.jsonl").read_text()
    assert "cycles" in estimates and "work" not in estimates
    assert "energy" not in (tmp_path / "found" / "index.html").read_text()


@pytest.mark.usefixtures("counted_fast")
def test_a_limit_of_energy_is_kept(run: Run, tmp_path: Path) -> None:
    status, _, err = explored(run, tmp_path / "found", "area", "--limit", "energy=8")
    assert status == 0, err
    (best,) = [
        from_json(item) for item in json.loads((tmp_path / "found" / "front.json").read_text())
    ]
    assert best.value(Objective.energy) <= 8 and CheapWork.asked
    refuses(
        explored(run, tmp_path / "none", "area", "--limit", "energy=0.001"),
        "no variant found keeps energy at most 0.001",
        "the nearest has",
    )
