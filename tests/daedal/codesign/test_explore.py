"""`daedal explore`: the folder, the same front for a seed, stop and resume, bad input."""

import dataclasses
import errno
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from bench.codesign_pictures import NAMES, pictures
from daedal.codesign import explore as explore_module
from daedal.codesign.cycles.counting import Counter, Network, count_network, count_networks
from daedal.codesign.cycles.work import Counts
from daedal.codesign.results import verify
from daedal.codesign.search import evaluator, front_search
from daedal.codesign.search.evaluation import Evaluation, Step
from daedal.codesign.search.front_search import Goal
from daedal.codesign.search.objectives import USABLE, Objective, parse_limits
from daedal.hw.synth.families import CellReport, Family
from daedal.hw.synth.flow import Implementation
from daedal.isa.artifact import Artifact
from daedal.isa.program import variant_from_json
from daedal.isa.variant import Variant, load_variant
from daedal.sim.rtl import verilog
from tests.compiler.graph.qdq_models import QdqModel
from tests.support.command_line import Answer, Run, refuses
from tests.support.pools import served

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_qdq.onnx"
OPTIONS = ("--target", "ecp5-85f", "--clock", 100, "--workers", 1)
COUNT = 3
TWO = ("--workers", 2, "--evaluations", 8)
"""Of a search of four rounds."""
MAIN = """
import signal
from daedal.cli import main
from daedal.codesign.search import front_search

front_search._BREEDING = 8
# Tests may run in the background of a script, where it is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
if __name__ == "__main__":
    main()
"""

ORDER = (
    *("search.json", "estimates.jsonl", "progress.json", "front.json", "front.csv"),
    *("variant.toml", "daedal_top.v", "digits_qdq.daedal", "digits_qdq.profile.json"),
    *("predicted.json", "index.html"),
)
"""Files of a search in the order in which they are first written as a whole."""

KNOWN: dict[str, Counts | None] = {}
"""Cycles by fingerprint: what was counted by one test is known to the others."""


class Counting:
    """Counts in this process, instead of the workers."""

    def __init__(self) -> None:
        self.counted: list[str] = []
        self.interrupted_after = 1_000
        self.count = _count

    @contextmanager
    def counters(
        self, networks: Mapping[str, Network], memory: str, _workers: int
    ) -> Iterator[Counter]:
        def count(variants: Sequence[Variant]) -> Iterator[tuple[int, Counts | None]]:
            for number, variant in enumerate(variants):
                if len(self.counted) == self.interrupted_after:
                    raise KeyboardInterrupt
                self.counted.append(variant.fingerprint)
                yield number, self.count(networks, variant, memory)

        yield count


class CheapCycles:
    """Estimates in no time; what the real ones are worth is tested elsewhere."""

    def __init__(self, _model: bytes, _on_host: frozenset[str]) -> None:
        pass

    def __call__(self, variant: Variant) -> float:
        if variant.array.batch > 1:
            return math.inf
        return 1e6 / variant.macs_per_cycle + 1e8 / variant.memory.wgt_bytes


def _count(networks: Mapping[str, Network], variant: Variant, memory: str) -> Counts | None:
    key = variant.fingerprint
    if key not in KNOWN:
        KNOWN[key] = count_networks(networks, variant, memory)
    return KNOWN[key]


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """A scaled-down search without workers and without Verilog."""
    found = Counting()
    monkeypatch.setattr(explore_module, "counters", found.counters)
    monkeypatch.setattr(evaluator, "AnalyticCycles", CheapCycles)
    monkeypatch.setattr(front_search, "_BREEDING", 8)
    monkeypatch.setattr(verilog, "kept_verilog", lambda *_given, **_named: "module daedal_top;")
    return found


def explored(run: Run, folder: Path, *options: object) -> Answer:
    return run("explore", DIGITS, *OPTIONS, "--evaluations", COUNT, "-o", folder, *options)


def contents(folder: Path) -> dict[str, bytes]:
    """All files but those that tell of time, by path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("index.html", "progress.json")
    }


def times(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in (folder / "points").rglob("*.*")}


@pytest.fixture
def done(run: Run, tmp_path: Path, counting: Counting) -> Path:
    """The folder of a finished search."""
    folder = tmp_path / "done"
    status, _, err = explored(run, folder)
    assert status == 0, err
    counting.counted.clear()
    return folder


def test_the_folder_has_the_front(done: Path) -> None:
    points = json.loads((done / "front.json").read_text())
    values = [(item["cycles"]["digits_qdq"], item["resources"]) for item in points]
    assert points and values == sorted(values, key=lambda item: item[0])
    header, *rows = (done / "front.csv").read_text().splitlines()
    assert header.startswith("name,latency,area,cycles digits_qdq,mhz") and len(rows) == len(points)
    assert len((done / "evaluations.jsonl").read_text().splitlines()) == COUNT
    page = (done / "index.html").read_text()
    assert "estimates.jsonl" in contents(done) and (done / "progress.json").is_file()
    for item in points:
        variant = variant_from_json(item["variant"])
        folder = done / "points" / variant.name
        assert load_variant(str(folder / "variant.toml")) == variant
        artifact = Artifact.load(folder / "digits_qdq.daedal")
        assert artifact.variant.fingerprint == variant.fingerprint
        assert (folder / "daedal_top.v").read_text() == "module daedal_top;"
        predicted = json.loads((folder / "predicted.json").read_text())
        assert predicted["clock"] == {"mhz": 100.0, "low": 100.0, "high": 100.0}
        assert {step["parameter"] for step in predicted["steps"]} >= {"alu_lanes", "inp_bytes"}
        assert f"<b>{variant.name}</b>" in page
    # No point is worse than another in both.
    front = [tuple(float(cell) for cell in row.split(",")[1:3]) for row in rows]
    assert not any(a[0] <= b[0] and a[1] <= b[1] for a in front for b in front if a is not b)


def test_the_pictures_of_the_documentation_are_drawn_from_it(done: Path) -> None:
    before, front = contents(done), json.loads((done / "front.json").read_text())
    drawn = {name: drawing.text() for name, drawing in pictures(done).items()}
    assert contents(done) == before
    assert list(drawn) == list(NAMES)
    assert drawn["front"].count('class="point"') == len(front)
    for item in front:
        assert item["variant"]["name"] in drawn["front"]
    fastest = done / "points" / front[0]["variant"]["name"]
    layers = json.loads((fastest / "digits_qdq.profile.json").read_text())["layers"]
    assert all(f"{layer['cycles']:,} cycles" in drawn["layers"] for layer in layers)
    units = json.loads((fastest / "predicted.json").read_text())["units"]
    assert all(f">{name}<" in drawn["parts"] for name in units)


def test_a_finished_search_counts_and_writes_nothing_again(
    run: Run, done: Path, counting: Counting
) -> None:
    before, written = contents(done), times(done)
    status, out, err = explored(run, done, "--json")
    assert status == 0, err
    assert not counting.counted
    assert contents(done) == before and times(done) == written
    assert json.loads(out)["front"] == json.loads(before["front.json"])
    assert json.loads(out)["verified"] == []


def test_a_search_continues(run: Run, done: Path, counting: Counting) -> None:
    before = contents(done)
    path = done / "evaluations.jsonl"
    first, *rest = path.read_text().splitlines()
    path.write_text(f"{first}\n")
    status, _, err = explored(run, done)
    assert status == 0, err
    assert len(counting.counted) == len(rest)
    assert contents(done) == before


@pytest.fixture
def whole(run: Run, tmp_path: Path, counting: Counting) -> dict[str, bytes]:
    """What two workers find without an interruption, in four rounds."""
    status, _, err = explored(run, tmp_path / "whole", *TWO)
    assert status == 0, err
    assert len(counting.counted) == 8
    counting.counted.clear()
    return contents(tmp_path / "whole")


@pytest.mark.parametrize("after", [0, 1, 2, 5])
def test_an_interrupted_search_finds_what_it_would_have_found(
    run: Run, tmp_path: Path, counting: Counting, whole: dict[str, bytes], after: int
) -> None:
    """Interrupted between rounds or within one, which other workers end."""
    folder = tmp_path / "found"
    counting.interrupted_after = after
    status, out, err = explored(run, folder, *TWO)
    assert status == 130, err
    assert "the same command continues" in " ".join(out.split())
    assert lines(folder) == after
    if after % 2:
        counting.interrupted_after = after + 1
        assert explored(run, folder, *TWO, "--workers", 1)[0] == 130
        assert lines(folder) == after + 1
    counting.interrupted_after = 1_000
    assert explored(run, folder, *TWO)[0] == 0
    assert len(counting.counted) == 8, "nothing is counted twice"
    assert contents(folder) == whole


def test_an_interruption_while_it_replays_loses_nothing(
    run: Run, done: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(done)

    def interrupt(*_given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(front_search.FrontSearch, "propose", interrupt)
        assert explored(run, done, "--evaluations", COUNT + 1)[0] == 130
    assert contents(done) == before
    assert explored(run, done)[0] == 0
    assert contents(done) == before and not counting.counted


def test_minutes_are_those_of_all_runs(run: Run, done: Path, counting: Counting) -> None:
    before, progress = contents(done), done / "progress.json"
    assert json.loads(progress.read_text())["seconds"] > 0
    progress.write_text('{"seconds": 59.9999}')
    command = ("explore", DIGITS, *OPTIONS, "-o", done, "--json", "--budget")
    status, out, err = run(*command, 1)
    assert status == 0, err
    found = len(counting.counted)
    assert found <= 1, "a tenth of a millisecond was left"
    progress.write_text('{"seconds": 60.5}')
    status, again, err = run(*command, 1)
    assert status == 0, err
    assert len(counting.counted) == found
    assert json.loads(again) == json.loads(out)
    assert found or contents(done) == before


def test_a_seed_gives_one_front(run: Run, done: Path, counting: Counting, tmp_path: Path) -> None:
    assert explored(run, tmp_path / "same")[0] == 0
    assert contents(tmp_path / "same") == contents(done)


def test_points_are_verified(
    run: Run, done: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = [0]

    def cycles(artifact: Artifact, memory: str, _report: object) -> int:
        return count_network(DIGITS.read_bytes(), artifact.variant, memory) + off[0]

    def implement(variant: Variant, _text: str, family: Any, _report: object) -> Implementation:
        return Implementation(variant, CellReport.of(family, {"LUT4": 5_000, "TRELLIS_FF": 9}))

    monkeypatch.setattr(verify, "require_verification", lambda _family: None)
    fakes = verify.Tools(cycles, implement)
    monkeypatch.setattr(verify, "Tools", lambda: fakes)
    status, out, err = explored(run, done, "--verify", 1)
    assert status == 0, err
    assert "Predicted against measured" in out and " equal" in out
    assert "Predicted against measured" in (done / "index.html").read_text()
    (measured,) = done.glob("points/*/measured.json")
    assert json.loads(measured.read_text())["resources"]["lut"] == 5_000
    off[0] = 2
    measured.unlink()
    status, out, _ = explored(run, done, "--verify", 1)
    assert status == 1 and "must count the RTL's cycles" in " ".join(out.split())


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.xdist_group("pool")
def test_a_pool_finds_what_this_machine_does(
    run: Run, done: Path, tmp_path: Path, counting: Counting
) -> None:
    pytest.importorskip("distributed", reason="the extra `tune` is not installed")
    folder = tmp_path / "pooled"
    with served("--listen", "127.0.0.1:0") as address:
        command = ("explore", DIGITS, *OPTIONS[:4], "--pool", address)
        status, _, err = run(*command, "--evaluations", COUNT, "-o", folder)
        assert status == 0, err
        assert not counting.counted, "the pool counts"
        assert contents(folder) == contents(done)
        answer = run(*command, "--workers", 2, "--evaluations", COUNT, "-o", folder)
        refuses(answer, "a pool is either joined or started; give workers or an address")


@pytest.mark.parametrize("lies", ["cycles", "other work"])
def test_cycles_that_are_not_those_of_the_cycle_model(
    run: Run, tmp_path: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch, lies: str
) -> None:
    """As a worker that lies would return."""

    def lie(*given: Any) -> Counts | None:
        found = count_networks(*given)
        if found is None or lies == "cycles":
            return found and Counts({name: count - 1 for name, count in found.cycles.items()})
        less = {
            name: dataclasses.replace(item, read=item.read - 1) for name, item in found.work.items()
        }
        return Counts(found.cycles, less)

    monkeypatch.setattr(counting, "count", lie)
    answer = explored(run, tmp_path / "found")
    refuses(answer, "a search must count what the cycle model counts", lies, "without the worker")
    assert not list((tmp_path / "found").glob("points/*/*.profile.json"))


def test_control_c_keeps_what_was_counted_and_the_same_command_continues(
    run: Run, tmp_path: Path, counting: Counting
) -> None:
    folder = tmp_path / "found"
    arguments = [str(item) for item in ("explore", DIGITS, *OPTIONS, "-o", folder)]
    script = tmp_path / "main.py"
    script.write_text(MAIN)
    process = subprocess.Popen(
        [sys.executable, str(script), *arguments, "--evaluations", "1000"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a terminal interrupts all processes of the session
    )
    try:
        deadline = time.monotonic() + 300
        while not lines(folder) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 130, err
    assert "Traceback" not in err, err
    assert "the same command continues" in " ".join(out.split())
    kept = lines(folder)
    assert kept >= 1
    assert (folder / "front.json").is_file() and (folder / "index.html").is_file()
    status, out, err = run(*arguments, "--evaluations", kept, "--json")
    assert status == 0, err
    assert not counting.counted
    assert all((path / "predicted.json").is_file() for path in (folder / "points").iterdir())


def lines(folder: Path) -> int:
    path = folder / "evaluations.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--objective", "speed"), "objectives are latency, area"),
        (("--limit", "speed=1"), "a limit is an objective and a number above 0"),
        (("--objective", ""), "objectives are latency, area"),
        (("--limit", "lut=120"), "a limit of lut is at most 100 percent of the device"),
        (("--evaluations", 0), "a budget is a number above 0, not 0"),
        (("--budget", 0), "a budget is a number above 0, not 0"),
        (("--budget", "nan"), "a budget is a number above 0, not nan"),
        (("--clock", "inf"), "a clock is a number above 0 MHz, not inf"),
        (("--budget", 1, "--evaluations", 1), "one budget"),
        (("--clock", 0), "a clock is a number above 0 MHz"),
        (("--tls", "certificates"), "--tls is for pools; give --pool, too"),
        (("--pool", "nowhere"), "a pool's address must be HOST:PORT"),
        (("--pool", "192.0.2.1:80"), "a pool beyond this machine must have certificates"),
        (("--target", "xczu3eg"), "choose --target ecp5-85f"),
        (("--base", "huge"), "a variant is one of"),
        (("--memory", "jitter"), "a memory without random delays, not 'jitter'"),
        ((DIGITS,), "networks need different file names"),
    ],
)
def test_settings_that_cannot_be(
    run: Run, tmp_path: Path, options: tuple[object, ...], words: str
) -> None:
    folder = tmp_path / "found"
    answer = run("explore", DIGITS, "--target", "ecp5-85f", "-o", folder, *options)
    refuses(answer, words)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--target", "vu9p"), "'vu9p' is not one of 'xc7z020', 'xczu3eg', 'ecp5-85f'"),
        (("--seed", -1), "Invalid value for '--seed': Input should be greater than or equal to 0"),
        (("--workers", 0), "Invalid value for '--workers'"),
    ],
)
def test_values_that_an_option_does_not_have(
    run: Run, tmp_path: Path, options: tuple[object, ...], words: str
) -> None:
    status, out, err = explored(run, tmp_path / "found", *options)
    assert (status, out) == (2, "")
    assert words in " ".join(err.replace("│", "").split())
    assert not (tmp_path / "found").exists()


@pytest.mark.parametrize(
    ("limit", "nearest"), [(("latency", 0.001), r"0\.\d+"), (("block_ram", 0.1), r"\d[\d.]*")]
)
def test_a_limit_that_no_variant_meets(
    run: Run, tmp_path: Path, counting: Counting, limit: tuple[str, float], nearest: str
) -> None:
    name, most = limit
    answer = explored(run, tmp_path / "found", "--limit", f"{name}={most}")
    refuses(answer, f"no variant found keeps {name} at most {most:g}; the nearest has ", "raise")
    assert re.search(rf"has {nearest} \(x[0-9a-f]{{12}}\);", answer[2])
    assert not (tmp_path / "found" / "points").exists()


def test_the_nearest_variant_is_named() -> None:
    def item(latency: float, block_ram: float, name: str) -> Evaluation:
        variant = dataclasses.replace(load_variant("ecp5"), name=name)
        used = {"lut": 1.0, "ff": 1.0, "dsp": 1.0, "block_ram": 2.08 * block_ram}
        return Evaluation(variant, Family.ECP5, Step.counted, {"net": latency * 1e5}, used, 100.0)

    found = {(0,): item(0.5, 90.0, "fast"), (1,): item(1.3, 20.0, "near"), (2,): None}
    goal = Goal((Objective.latency,), parse_limits(["latency=1", "block_ram=25"]), USABLE)
    said = str(explore_module.nothing_found(found.values(), goal))
    assert "keeps latency at most 1 with all other limits; the nearest has 1.3 (near)" in said
    del found[(0,)]
    said = str(explore_module.nothing_found(found.values(), goal))
    assert "keeps latency at most 1; the nearest has 1.3 (near)" in said


def test_folders_that_cannot_be(run: Run, done: Path, tmp_path: Path) -> None:
    before = contents(done)
    answer = explored(run, done, "--seed", 1)
    refuses(answer, "must be that of the same search", "with another seed")
    settings = done / "search.json"
    text = settings.read_text()
    settings.write_text(text.replace('"kit": "', '"kit": "0.0.'))
    refuses(explored(run, done), "with another kit")
    settings.write_text(text)
    assert contents(done) == before
    file = tmp_path / "file"
    file.write_text("mine")
    refuses(explored(run, file), "an output folder must be one that can be made", "'")
    assert file.read_text() == "mine"


def test_a_network_with_nothing_for_the_accelerator(run: Run, tmp_path: Path) -> None:
    net = QdqModel()
    path, folder = tmp_path / "host.onnx", tmp_path / "found"
    path.write_bytes(net.model(net.op("Erf", net.input("x", (1, 8)))).SerializeToString())
    answer = run("explore", path, *OPTIONS, "--evaluations", 1, "-o", folder)
    refuses(answer, "network 'host': ")
    assert not folder.exists()


def test_a_disk_that_is_full_for_a_file(
    run: Run, done: Path, tmp_path: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is written then: one sentence, nothing half-written, and the search goes on."""
    folder, names = tmp_path / "found", {path.name for path in done.rglob("*") if path.is_file()}
    made, opened = tempfile.mkstemp, os.fdopen
    fails_at, handles = [""], dict[int, str]()

    def make(**given: Any) -> tuple[int, str]:
        handle, path = made(**given)
        handles[handle] = given["prefix"]
        return handle, path

    def open_full(handle: int, mode: str) -> Any:
        file = opened(handle, mode)
        if handles.pop(handle, "") == f".{fails_at[0][:40]}.":
            file = mock.Mock(wraps=file)
            file.__enter__, file.__exit__ = lambda _self: file, lambda *_given: file.close()
            file.write.side_effect = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return file

    monkeypatch.setattr(tempfile, "mkstemp", make)
    monkeypatch.setattr(os, "fdopen", open_full)
    for name in ORDER:
        fails_at[0] = name
        answer = explored(run, folder)
        refuses(answer, f"{name}' is not: No space left on device; make room")
        left = {path.name for path in folder.rglob("*") if path.is_file()}
        assert left <= names - {name}, name
    assert names - set(ORDER) == {"evaluations.jsonl"}, "the others were tried"
    fails_at[0] = ""
    assert explored(run, folder)[0] == 0
    assert contents(folder) == contents(done)


@pytest.mark.parametrize("after", [0, 1])
def test_a_full_disk(
    run: Run, tmp_path: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """It fills after so many variants; the search goes on where there is room again."""
    folder = tmp_path / "found"
    opened = Path.open

    def full(path: Path, mode: str = "r", *given: Any, **named: Any) -> Any:
        if mode == "a" and lines(folder) == after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return opened(path, mode, *given, **named)

    with monkeypatch.context() as context:
        context.setattr(Path, "open", full)
        answer = explored(run, folder)
    refuses(answer, "No space left on device; make room, and the same command continues")
    assert lines(folder) == after
    counting.counted.clear()
    status, _, err = explored(run, folder)
    assert status == 0, err
    assert len(counting.counted) == COUNT - after
