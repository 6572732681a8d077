"""`daedal explore`: the folder, the same front for a seed, stop and resume."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import daedal
from bench.codesign.pictures import NAMES, pictures
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact
from daedal.codesign.cycles.counting import count_network, count_networks
from daedal.codesign.cycles.work import Counts
from daedal.codesign.results import verify
from daedal.codesign.search import front_search
from daedal.commands import explore as explore_command
from daedal.commands.signals import Ended
from daedal.common.errors import ExploreError
from daedal.hw.synth.families import CellReport
from daedal.hw.synth.flow import Implementation
from daedal.isa.program import variant_from_json
from daedal.isa.variant import Variant, load_variant
from tests.support.command_line import Run, refuses
from tests.support.exploring import COUNT, DIGITS, OPTIONS, Counting, contents, explored, lines
from tests.support.pools import served

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


def times(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in (folder / "points").rglob("*.*")}


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
        predicted = json.loads((folder / "predicted.json").read_text())
        assert predicted["clock"] == {"mhz": 100.0, "low": 100.0, "high": 100.0}
        assert {step["parameter"] for step in predicted["steps"]} >= {"alu_lanes", "inp_bytes"}
        assert f"<b>{variant.name}</b>" in page
    front = [tuple(float(cell) for cell in row.split(",")[1:3]) for row in rows]
    for item, (latency, _) in zip(points, front, strict=True):
        host = item["host_ms"]["digits_qdq"]
        assert host > 0
        assert latency == pytest.approx(item["cycles"]["digits_qdq"] / 100e3 + host, rel=1e-3)
    # No point is worse than another in both.
    assert not any(a[0] <= b[0] and a[1] <= b[1] for a in front for b in front if a is not b)


@pytest.mark.usefixtures("counting")
def test_weights_of_4_bits_are_an_option_for_networks_that_have_such(
    done: Path, run: Run, tmp_path: Path, rng: np.random.Generator
) -> None:
    def drawn(folder: Path) -> list[bool]:
        found: dict[str, list[bool]] = json.loads((folder / "search.json").read_text())
        return found["parameters"]["narrow_weights"]

    assert drawn(done) == [False]
    maker = QdqModel()
    weights = maker.weights(rng.integers(-8, 8, (16, 16, 1, 1)).astype(np.int8), 0.01)
    x = maker.requantized(maker.input("x", (1, 16, 4, 4)), 0.1, 3)
    model = maker.model(maker.requantized(maker.op("Conv", x, weights), 0.1, 3))
    onnx.save(model, tmp_path / "narrow.onnx")
    folder = tmp_path / "found"
    options = (*OPTIONS, "--evaluations", 1, "-o", folder)
    status, _, err = run("explore", tmp_path / "narrow.onnx", *options)
    assert status == 0, err
    assert drawn(folder) == [False, True]


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


def test_the_function_is_the_command(done: Path, counting: Counting) -> None:
    before = contents(done)
    found = daedal.explore(
        DIGITS, done, fpga="ecp5-85f", mhz=100, evaluations=COUNT, objectives="latency, area"
    )
    assert not counting.counted and contents(done) == before
    assert [item.to_json() for item in found.front] == json.loads(before["front.json"])
    assert f"{len(found.front)} variants on the front, {COUNT} counted>" in repr(found)
    for item, point in zip(found.front, found.points, strict=True):
        artifact = point.artifact("digits_qdq")
        assert artifact.variant.fingerprint == item.variant.fingerprint
    with pytest.raises(ExploreError, match="with another limits"):
        daedal.explore(DIGITS, done, fpga="ecp5-85f", mhz=100, limits={"dsp": 50, "lut": 9.5})


def test_the_page_is_there_from_the_first_round_on(
    run: Run, tmp_path: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the front so far, and its points get their layers one by one."""
    folder, pages = tmp_path / "found", list[str]()
    write = explore_command.write_atomically

    def kept(path: Path, text: str) -> None:
        write(path, text)
        front = json.loads((folder / "front.json").read_text())
        names = [variant_from_json(item["variant"]).name for item in front]
        assert names and all(f"<b>{name}</b>" in text for name in names)
        pages.append(text)

    monkeypatch.setattr(explore_command, "write_atomically", kept)
    status, _, err = explored(run, folder, *TWO)
    assert status == 0, err
    lacking = [page.count("Its details are not there yet") for page in pages]
    points = len(json.loads((folder / "front.json").read_text()))
    assert lacking[0] > 0 and lacking[-1] == 0
    assert lacking[-points - 1 : -1] == list(range(points - 1, -1, -1))


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
def whole(run: Run, counting: Counting, kept: Path) -> dict[str, bytes]:
    """What two workers find without an interruption, in four rounds."""
    if not (kept / "whole").exists():
        status, _, err = explored(run, kept / "whole", *TWO)
        assert status == 0, err
        assert len(counting.counted) == 8
        counting.counted.clear()
    return contents(kept / "whole")


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


def test_sigterm_leaves_the_front(
    run: Run, tmp_path: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, count = tmp_path / "found", counting.count

    def ended(*given: Any) -> Counts | None:
        if lines(folder):
            raise Ended(signal.SIGTERM)
        return count(*given)

    monkeypatch.setattr(counting, "count", ended)
    status, _, err = explored(run, folder)
    assert status == 143 and "ended by SIGTERM" in err
    assert lines(folder) == 1 and (folder / "front.json").is_file()


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
    monkeypatch.setattr(verify.Tools, "on", lambda _board: fakes)
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
