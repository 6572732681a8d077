"""`--memory` and `--sdram` with files: the RTL takes the model's cycles, and bad files are told."""

import json
from pathlib import Path

import numpy as np
import pytest

import daedal
from bench.correctness.profile_differences import differences
from bench.correctness.rtl_launches import rtl_device
from daedal.api import simulate
from daedal.artifact.artifact import Artifact
from daedal.isa.memory_file import load_memory
from daedal.runtime.driver import LoadedProgram
from daedal.sim.timing.device import TimingDevice
from tests.daedal.conftest import DIGITS, Run

PLAIN = """
read_latency_cycles = 21
write_latency_cycles = 9
max_read_bursts = 3
max_write_bursts = 2
shared_bus = true
beat_cycles = 3
"""
BOARD = '[sdram]\npart = "IS42S16160G-7"\nphase_cycles = 101\n'
CHIP = """
[sdram]
bus_mhz = 50
capture_clocks = 1
[sdram.chip]
data_bits = 16
row_bits = 12
column_bits = 8
bank_bits = 1
cas_latency = 2
clock_ns = 10
row_to_data_ns = 30
precharge_ns = 30
row_open_ns = 60
row_cycle_ns = 90
write_recovery_ns = 20
refresh_ns = 100
row_to_row_ns = 20
refresh_interval_ns = 15600
"""
BAD = "read_latency = 1"


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """An abstract memory."""
    path = tmp_path / "mine.toml"
    path.write_text(PLAIN)
    return path


@pytest.mark.rtl
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(PLAIN, id="plain"),
        pytest.param(BOARD, id="board"),
        pytest.param(CHIP, id="chip", marks=pytest.mark.slow),
    ],
)
def test_the_cycle_model_counts_the_cycles_of_the_rtl(built: Path, memory: Path, text: str) -> None:
    memory.write_text(text)
    timing = load_memory(memory)
    (program,) = (launch.program for launch in Artifact.load(built / "digits.daedal").launches)
    found = []
    for device in (
        TimingDevice(program.variant, timing=timing),
        rtl_device(program.variant, timing=timing),
    ):
        loaded = LoadedProgram.place(program, device)
        found.append(device.launch(loaded.program, loaded.bases))
    assert not differences(*found)


def test_pages_and_reports_know_the_file_by_its_content(
    run: Run, built: Path, memory: Path
) -> None:
    names, cycles = set(), set()
    for latency in (21, 90):
        memory.write_text(PLAIN.replace("21", str(latency)))
        status, out, err = run("profile", built / "digits.daedal", "--memory", memory, "--json")
        assert status == 0, err
        report = json.loads(out)
        names.add(report["conditions"]["memory"])
        cycles.add(report["cycles"])
    assert len(names) == len(cycles) == 2 and all(name.startswith("mine-") for name in names)


def test_inspect_counts_with_the_file(run: Run, built: Path, memory: Path) -> None:
    options = ("--memory", memory, "--json", "--no-time-host")
    status, out, err = run("inspect", built / "digits.daedal", *options)
    assert status == 0, err
    assert json.loads(out)["memory"].startswith("mine-")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact that was compiled for an abstract memory, whose file is gone."""
    folder = tmp_path_factory.mktemp("made")
    path = folder / "mine.toml"
    path.write_text(PLAIN)
    daedal.compile(DIGITS, "tiny", memory=path).save(folder / "made.daedal")
    path.unlink()
    return folder / "made.daedal"


def test_an_artifact_is_counted_with_the_memory_that_it_was_compiled_for(
    run: Run, made: Path
) -> None:
    """An option is another memory."""
    counted = {}
    for name, given in (("own", ()), ("ddr", ("--memory", "ddr"))):
        status, out, err = run("profile", made, *given, "--json")
        assert status == 0, err
        report = json.loads(out)
        counted[name] = report["cycles"]
        assert report["conditions"]["memory"].partition("-")[0] == {"own": "mine"}.get(name, name)
        status, out, err = run("inspect", made, *given, "--json", "--no-time-host")
        assert status == 0, err
        assert json.loads(out)["memory"] == report["conditions"]["memory"]
    assert counted["own"] > counted["ddr"]


def test_devices_have_the_memory_of_the_artifact(
    run: Run, built: Path, made: Path, memory: Path
) -> None:
    artifact = Artifact.load(made)
    assert artifact.memory == load_memory(memory)
    assert (
        artifact.memory_or(None, seed=3).seed == 3 and artifact.memory_or("ideal").name == "ideal"
    )
    images = dict(np.load(built / "images.npz"))
    (first, _) = simulate(artifact, images, device="timing").profiles
    _, out, _ = run("profile", made, "--json")
    assert first.cycles == json.loads(out)["cycles"]


def test_the_command_compiles_for_the_memory(run: Run, memory: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.daedal"
    status, _, err = run("compile", DIGITS, "-v", "tiny", "--memory", memory, "-o", made)
    assert status == 0, err
    assert Artifact.load(made).memory == load_memory(memory)


@pytest.mark.parametrize(
    "verb",
    [
        ("run", "ARTIFACT", "-i", "images.npz"),
        ("generate", "ARTIFACT", "--decoder", "images.npz"),
        ("profile", "ARTIFACT"),
        ("inspect", "ARTIFACT"),
        ("trace", "ARTIFACT"),
        ("compile", "MODEL", "-o", "out.daedal"),
        ("tune", "MODEL", "-r", "records.db"),
        ("compare", "tiny", "-m", "MODEL"),
        ("explore", "MODEL", "--fpga", "ecp5-85f", "-o", "found", "--evaluations", "1"),
    ],
    ids=lambda verb: verb[0],
)
def test_every_verb_refuses_a_bad_file_and_an_unknown_preset(
    run: Run, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {
        "ARTIFACT": built / "digits.daedal",
        "MODEL": Path(__file__).parents[3] / "examples" / "digits" / "digits_qdq.onnx",
        "images.npz": built / "images.npz",
    }
    (tmp_path / "bad.toml").write_text(BAD)
    for given, sentence in (
        ("bad.toml", "'bad.toml' has no key 'read_latency'; it has read_latency_cycles,"),
        ("sram", "memory must be one of ideal, ddr, slow, jitter, ulx3s, or the path of a .toml"),
    ):
        status, _, err = run(*(names.get(word, word) for word in verb), "--memory", given)
        assert status == 2
        assert sentence in " ".join(err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"], "nothing is written"
