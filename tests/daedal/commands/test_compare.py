"""``daedal compare``: tables and record, routed clocks next to estimated ones, what is refused."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from daedal.codesign import compare
from daedal.codesign.results import verify
from daedal.common.errors import ToolError
from daedal.hw.synth import routes, tools
from daedal.hw.synth.cache import AreaCache
from daedal.hw.synth.families import CellReport, Family
from daedal.hw.synth.paths import TimingPath
from daedal.hw.synth.place import PlaceRequest, Routed
from daedal.isa.variant import Variant, load_variant
from tests.support.command_line import Run, refuses

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_qdq.onnx"
MODEL = ("--model", DIGITS, "--host-rates", "default")
CELLS = {"LUT4": 1_000, "TRELLIS_FF": 836, "MULT18X18D": 8}
MHZ = {"tiny": 93.5, "ecp5": 87.25}
PATH = TimingPath(
    start="gemm.a", end="alu.b", start_clock="clk", end_clock="clk", modules=("gemm", "", "alu"),
    signals=("gemm.a[0]", "b"), levels=4, logic_ns=3.0, routing_ns=8.0,
)  # fmt: skip


class Router:
    """Stands in for nextpnr; `fails_at` is the name of a variant, and what happens then."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, PlaceRequest]] = []
        self.fails_at: tuple[str, BaseException] | None = None

    def __call__(
        self,
        netlist: str,
        requests: Sequence[PlaceRequest],
        *,
        num_processes: int,
        progress: Callable[[int, str], None],
    ) -> Iterator[tuple[int, Routed]]:
        if self.fails_at is not None and netlist == self.fails_at[0]:
            raise self.fails_at[1]
        for number, request in enumerate(requests):
            progress(number, "packing")
            self.asked.append((netlist, request))
            used = {"TRELLIS_COMB": (1_100, 83_640), "MULT18X18D": (8, 156)}
            yield number, Routed(request, {"clk": MHZ[netlist]}, (PATH,), used, None)


@pytest.fixture
def router(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Router:
    """Everything that takes minutes is made up; its answers are kept by the real caches."""
    found = Router()

    def emitted(variant: Variant, *_given: object, **_named: object) -> str:
        return variant.name

    def synthesize(_self: AreaCache, text: str, family: Family, **_named: Any) -> CellReport:
        cells = CELLS | ({"MULT18X18D": 157} if text == "vta" else {})
        return CellReport.of(family, cells, {})

    def netlist(_self: AreaCache, text: str, *_given: object, **_named: object) -> str:
        return text

    monkeypatch.setattr(routes, "place_and_route_all", found)
    monkeypatch.setattr(compare, "kept_verilog", emitted)
    monkeypatch.setattr(AreaCache, "synthesize", synthesize)
    monkeypatch.setattr(AreaCache, "netlist", netlist)
    monkeypatch.setattr(tools.Tool, "require", lambda *_given: None)
    monkeypatch.setattr(verify, "cache_folder", lambda name: tmp_path / "cache" / name)
    return found


def test_estimates_side_by_side(run: Run) -> None:
    status, out, err = run("compare", "tiny", "ecp5", *MODEL)
    assert status == 0, err
    assert "include the host's time" in " ".join(out.split()) and "default host rates" in out
    assert "Hardware on LFE5U-85F" in out and "digits_qdq" in out and "routed" not in out
    status, out, _ = run("compare", "tiny", "ecp5", *MODEL, "--json")
    tiny, ecp5 = json.loads(out)
    assert (tiny["variant"], ecp5["variant"]) == ("tiny", "ecp5")
    assert tiny["routed"] is None
    assert tiny["parameters"]["array"]["block_in"] == 8
    assert tiny["networks"]["digits_qdq"]["cycles"] > ecp5["networks"]["digits_qdq"]["cycles"]


def test_every_parameter_that_differs(run: Run, tmp_path: Path) -> None:
    mine = load_variant("tiny").replace("mine", read_bursts=4, counters=False)
    path = tmp_path / "mine.toml"
    path.write_text(mine.to_toml())
    status, out, err = run("compare", "tiny", path, *MODEL)
    assert status == 0, err
    rows = [line.split() for line in out.splitlines()]
    shown = {row[0]: row[1:] for row in rows if row and row[0].startswith(("bus.", "units."))}
    assert shown == {"bus.read_bursts": ["8", "4"], "units.counters": ["yes", "no"]}
    assert "Parameters that differ" not in run("compare", "tiny", *MODEL)[1]


def test_routed_clocks_are_next_to_the_estimates(run: Run, router: Router) -> None:
    command = ("compare", "tiny", "ecp5", "vta", *MODEL, "--route")
    status, out, err = run(*command)
    assert status == 0, err
    assert "routed MHz" in out and "93.5" in out and "87.2" in out
    assert "vta does not fit: DSP must be at most 156, not 157" in " ".join(out.split())
    assert [(name, request.seed) for name, request in router.asked] == [("tiny", 1), ("ecp5", 1)]
    status, out, _ = run(*command, "--json")
    assert len(router.asked) == 2, "what was routed is kept"
    tiny, ecp5, vta = json.loads(out)
    network = tiny["networks"]["digits_qdq"]
    milliseconds = network["cycles"] / 93.5e3 + network["host_ms"]
    frames = tiny["routed"]["frames_per_second"]["digits_qdq"]
    assert frames == pytest.approx(1e3 / milliseconds)
    assert tiny["routed"]["resources"]["lut"] == 1_100
    assert (ecp5["routed"]["mhz"], ecp5["routed"]["seed"]) == (87.25, 1)
    assert ecp5["routed"]["worst_path"].startswith("gemm -> daedal_top -> alu")
    assert ecp5["clock"]["mhz"] != 87.25, "the estimate stays"
    assert vta["routed"]["mhz"] is None and "DSP must be" in vta["routed"]["problem"]


@pytest.mark.parametrize(
    ("failure", "status"), [(KeyboardInterrupt(), 130), (ToolError("nextpnr failed"), 2)]
)
def test_the_same_command_continues(
    run: Run, router: Router, failure: BaseException, status: int
) -> None:
    command = ("compare", "tiny", "ecp5", *MODEL, "--route")
    router.fails_at = ("ecp5", failure)
    answer = run(*command)
    assert answer[0] == status and answer[1] == "" and "Traceback" not in answer[2]
    router.fails_at = None
    assert run(*command)[0] == 0
    assert [name for name, _ in router.asked] == ["tiny", "ecp5"], "each once"


def test_what_cannot_be_compared(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    refuses(run("compare", "huge", *MODEL), "a variant is one of")
    refuses(run("compare", "tiny", *MODEL, *MODEL), "networks need different file names")
    refuses(run("compare", "tiny", *MODEL, "--fpga", "xc7z020"), "areas are known of family ecp5")
    answer = run("compare", "tiny", *MODEL, "--fpga", "xc7z020", "--route")
    refuses(answer, "clocks are routed of family ecp5, not of xc7", "leave --route out")

    def missing(_tool: tools.Tool, what: str) -> None:
        raise ToolError(f"{what} needs a tool")

    monkeypatch.setattr(tools.Tool, "require", missing)
    refuses(run("compare", "tiny", *MODEL, "--route"), "place and route needs a tool")
