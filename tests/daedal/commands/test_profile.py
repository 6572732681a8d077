"""`daedal profile` and `daedal diff`: what they write, and one sentence for every bad input."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import daedal
from bench.correctness.rtl_launches import rtl_device
from daedal.isa.table import Unit
from daedal.runtime.layers import LAYER_UNITS
from daedal.runtime.profiler.measure import measure
from daedal.runtime.profiler.reader import load_profile
from examples.digits.data import demo_images
from tests.support.command_line import Run, refuses
from tests.support.profiles import random_launch

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "digits" / "digits_qdq.onnx"


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits network compiled for `tiny`."""
    target = tmp_path_factory.mktemp("profiled") / "digits.daedal"
    daedal.compile(DIGITS, "tiny").save(target)
    return target


def saved(folder: Path, name: str, seed: int) -> Path:
    """A made profile as a file."""
    profile = random_launch(np.random.default_rng(seed), names=["stem", "[red]body"]).profile(name)
    target = folder / f"{name}.json"
    target.write_text(json.dumps(profile.to_json()))
    return target


def test_profile_writes_everything(run: Run, artifact: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / name for name in ("p.json", "p.html", "p.trace")]
    status, out, err = run(
        *("profile", artifact, "--layer", "add0_linear", "-o", outputs[0]),
        *("--html", outputs[1], "--trace", outputs[2]),
    )
    assert status == 0, err
    assert "conv3_linear" in out and "of roof" in out and "Units in add0_linear" in out
    assert [path.name for path in outputs if f"wrote {path}" in err] == [x.name for x in outputs]
    assert "; `daedal diff` compares it with another one" in err
    profile = load_profile(outputs[0])
    assert f"{profile.cycles:,}" in out and profile.conditions.device == "timing"
    assert profile.timeline is not None and profile.timeline.cycles >= profile.cycles
    assert "conv3_linear" in outputs[1].read_text()
    assert json.loads(outputs[2].read_text())["otherData"]["cycles"] == profile.cycles


@pytest.mark.rtl
def test_profile_of_the_machine(artifact: Path) -> None:
    """The profile is that of a run with data; its parts add up, with and without all marks."""
    variant = daedal.load_variant("tiny")
    loaded = daedal.compile(DIGITS, variant)
    profile = measure(loaded, rtl_device(variant), memory="ddr", with_timeline=True)
    images, _ = demo_images(1)
    (plain,) = daedal.simulate(loaded, {"input": images}, device=rtl_device(variant)).profiles
    assert (profile.cycles, profile.units) == (plain.cycles, plain.units)
    assert 0 <= profile.tail_cycles < 200
    words = sum(profile.units[unit].work for unit in (Unit.LOAD, Unit.STORE))
    moved = sum(layer.bytes_moved for layer in profile.layers)
    assert moved == words * variant.bus_bytes
    for counters in profile.units.values():
        assert counters.cycles == profile.cycles
    # Layers overlap, so only their sums stay below the machine's rates.
    assert sum(layer.ideal_cycles for layer in profile.layers) <= profile.cycles
    assert moved / variant.bus_bytes <= profile.cycles
    for layer in profile.layers:
        # Channels of the other operators share their parameters, which the roofline counts singly.
        assert layer.bytes_moved >= layer.layer.bytes_once or not layer.layer.macs
    assert profile.timeline is not None
    marked = {item.instruction for item in profile.timeline.intervals}
    assert marked == set(range(len(loaded.program.instructions) - 1))
    for unit in LAYER_UNITS:
        at = 0
        for item in profile.timeline.lane(unit):
            assert item.begin == at < item.end
            at = item.end
    # Each mark is eight words on the bus: the marked run is longer, but the same run.
    assert profile.cycles <= profile.timeline.cycles < 1.2 * profile.cycles
    spans = profile.timeline.layer_spans()
    assert [span.tag for span in spans] == [layer.layer.tag for layer in profile.layers]


def test_diff_shows_what_moved(run: Run, tmp_path: Path) -> None:
    paths = saved(tmp_path, "old", 1), saved(tmp_path, "new", 2)
    before, after = map(load_profile, paths)
    status, out, err = run("diff", *paths)
    assert status == 0, err
    assert f"{after.cycles:,} cycles instead of {before.cycles:,}" in out.splitlines()[-1]
    assert "[red]body" in out and "stem" in out
    report = json.loads(run("diff", *paths, "--json")[1])
    assert report["cycles"] == [before.cycles, after.cycles]
    assert {layer["name"] for layer in report["layers"]} == {"stem", "[red]body"}


def test_diff_of_bad_files(run: Run, artifact: Path, tmp_path: Path) -> None:
    good = saved(tmp_path, "good", 3)
    refuses(run("diff", good, artifact), "must be a file that `daedal profile` wrote")
    refuses(run("diff", tmp_path / "none.json", good), "a profile must be a readable file", "none")


def test_profile_of_bad_input(run: Run, artifact: Path, tmp_path: Path) -> None:
    profile = ("profile", artifact)
    refuses(run(*profile, "--layer", "conv9"), "--layer must be one of conv0_linear", "'conv9'")
    refuses(run(*profile, "--device", "functional"), "needs a device that counts cycles")
    refuses(run(*profile, "--device", "abacus"), "a device is one of", "'abacus'")
    refuses(run(*profile, "-o", tmp_path / "no" / "p.json"), "an output must be a file")
    refuses(run("profile", tmp_path / "none.daedal"), "an artifact must be a readable file")
    uio = (*profile, "--device", "uio")
    answer = run(*uio, "--option", f"sysfs={tmp_path}", "--option", "memory=/dev/none")
    refuses(answer, "a driver must tell about its device in /sys", str(tmp_path))
    uart = (*profile, "--device", "uart", "--option", f"port={tmp_path / 'none'}")
    refuses(run(*profile, "--device", "uart"), "give --option port=PATH")
    refuses(run(*uart), "a serial port must be one that can be opened", "none")
    refuses(
        run(*profile, "--option", "timing=1"), "an option of device 'timing' must be NAME=VALUE"
    )


def test_a_page_of_a_file_whose_name_is_no_text(run: Run, artifact: Path, tmp_path: Path) -> None:
    odd, page = tmp_path / os.fsdecode(b"a \xff.daedal"), tmp_path / "page.html"
    odd.write_bytes(artifact.read_bytes())
    status, _, err = run("profile", odd, "--html", page)
    assert status == 0, err
    assert "a \\udcff" in page.read_text()
