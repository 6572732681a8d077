"""The command line: what all commands refuse alike, and the exit status of each kind of failure."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from daedal import cli
from daedal.artifact.artifact import Artifact, Launch
from daedal.common.errors import DeviceError
from daedal.sim.functional.device import FunctionalDevice
from tests.support.command_line import Run, refuses

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_qdq.onnx"


def test_variant_that_cannot_be_built(run: Run, tmp_path: Path) -> None:
    text = (ROOT / "variants" / "tiny.toml").read_text()
    bad = tmp_path / "bad.toml"
    bad.write_text(text.replace("block_in = 8", "block_in = 7"))
    for command in (["verilog", bad], ["compile", DIGITS, "-v", bad, "-o", tmp_path / "x.daedal"]):
        refuses(run(*command), "block_in", "7")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"]


@pytest.mark.parametrize("keep", [0, 100, 0.5, -1])
def test_truncated_artifact(run: Run, built: Path, tmp_path: Path, keep: float) -> None:
    data = (built / "digits.daedal").read_bytes()
    size = int(len(data) * keep) if isinstance(keep, float) else keep % len(data)
    (tmp_path / "cut.daedal").write_bytes(data[:size])
    for command in (
        ["run", tmp_path / "cut.daedal", "-i", built / "images.npz"],
        ["disasm", tmp_path / "cut.daedal"],
    ):
        refuses(run(*command), "must be a file that `daedal compile` wrote")


def test_outputs_into_missing_folders(run: Run, built: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "missing" / "file"
    for command in (
        ["compile", DIGITS, "-v", "tiny", "-o", nowhere],
        ["run", built / "digits.daedal", "-i", built / "images.npz", "-o", nowhere],
        ["verilog", "tiny", "-o", nowhere],
    ):
        refuses(run(*command), "an output must be a file in a folder that exists", "missing")
    (tmp_path / "file").touch()
    result = run(
        *("compile", DIGITS, "-o", tmp_path / "x.daedal", "--dump-dir", tmp_path / "file" / "dump")
    )
    refuses(result, "an output folder must be one that can be made")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("compil", "a command must be one of `daedal --help`, not 'compil'; did you mean compile?"),
        ("--bogus", "an option must be one of `daedal --help`, not '--bogus'"),
        (
            "compile",
            "MODEL must be given to `daedal compile`, and is missing; add it (An ONNX "
            "model: int8 QDQ, or any for targets cpu and gpu), as in `daedal compile --help`",
        ),
        (
            "tune m.onnx",
            "--records must be given to `daedal tune`, and is missing; add it (The database; "
            "created if it does not exist), as in `daedal tune --help`",
        ),
        (
            "tune m.onnx --record x",
            "an option must be one of `daedal tune --help`, not '--record'; did you mean "
            "--records?",
        ),
        (
            "tune m.onnx -r",
            "-r must have a value, and has none; add one, as in `daedal tune --help`",
        ),
        (
            "variants --json=1",
            "--json is a flag and must have no value, but has one; leave the value out, as in "
            "`daedal variants --help`",
        ),
        (
            "tune m.onnx -r x --trials few",
            "--trials must be a valid integer, not 'few'; see `daedal tune --help`",
        ),
        (
            "run x -i y --simulator x",
            "--simulator must be one of 'native', 'verilator', 'icarus', not 'x'; see "
            "`daedal run --help`",
        ),
        (
            "verilog tiny a b",
            "arguments must be those of `daedal verilog --help`, not 'a b', too; leave that out",
        ),
    ],
)
def test_usage_errors_are_sentences(run: Run, arguments: str, sentence: str) -> None:
    """Rule, offender, remedy, as all other errors, whatever Typer's own form is."""
    status, out, err = run(*arguments.split())
    assert (status, out) == (2, "")
    assert " ".join(err.split()) == f"error: {sentence}"


def test_values_out_of_range(run: Run) -> None:
    status, _, err = run(*["tune", "m.onnx", "-r", "x", "--workers", "-1"])
    assert status == 2
    assert re.search(r"--workers must be .*0, not '-1'; see `daedal tune --help`", err), err


def test_device_failures_exit_with_two(
    run: Run, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DeviceError("the machine must finish without an error; it reported READ_SLVERR")

    monkeypatch.setattr(FunctionalDevice, "launch", fail)
    status, out, err = run("run", built / "digits.daedal", "-i", built / "images.npz")
    assert status == 2 and out == "" and "it reported READ_SLVERR" in err


def test_a_program_that_breaks_a_rule_does_not_run(run: Run, built: Path, tmp_path: Path) -> None:
    """It is well-formed, and its tokens do not balance."""
    artifact = Artifact.load(built / "digits.daedal")
    items = [item.replace(push=0) for item in artifact.program.instructions]
    program = dataclasses.replace(artifact.program, instructions=tuple(items))
    parts = [
        dataclasses.replace(part, program=program) if isinstance(part, Launch) else part
        for part in artifact.parts
    ]
    broken = tmp_path / "broken.daedal"
    dataclasses.replace(artifact, parts=tuple(parts)).save(broken)
    refuses(
        run("run", broken, "-i", built / "images.npz"),
        "must pass the verifier",
        "every pop must find a token",
    )


def test_interrupted(run: Run, built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("daedal.commands.run.load_arrays", interrupt)
    status, out, err = run("run", built / "digits.daedal", "-i", built / "images.npz")
    assert status == 130 and out == "" and err.endswith("error: interrupted\n")
    assert "Traceback" not in err


ENDING = """
import os, signal, sys
from daedal import cli

def work():
    number = int(sys.argv[1])
    try:
        os.kill(os.getpid(), number)
    finally:
        os.kill(os.getpid(), number)  # a second one does not cut this short
        print("tidied up")

cli.app = work
signal.signal(int(sys.argv[1]), signal.SIG_IGN if sys.argv[2:] else signal.SIG_DFL)
cli.main()
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("ignored", [False, True])
def test_ended_by_a_signal(name: str, ignored: bool) -> None:
    """What was begun is ended first; a signal that is ignored, as by nohup, stays so."""
    number = getattr(signal, name)
    done = subprocess.run(
        [sys.executable, "-c", ENDING, str(int(number)), *["ignored"] * ignored],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "tidied up\n"
    if ignored:
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert (done.returncode, done.stderr) == (128 + number, f"error: ended by {name}\n")


LOADING = """
import sys
from daedal import start

class Interrupted:
    def find_spec(self, name, *_given):
        if name == "daedal.cli":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
start.main()
"""


def test_interrupted_while_it_loads() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADING], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: interrupted\n")


def test_signals_are_as_they_were_afterwards(run: Run) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    assert run("ops")[0] == 0
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before


def test_standard_output_on_a_full_disk() -> None:
    full = Path("/dev/full")
    if not full.is_char_device():
        pytest.skip("needs /dev/full")
    with full.open("w") as output:  # opened, not named: nothing can take its place
        done = subprocess.run(
            [sys.executable, "-c", "from daedal.cli import main; main()", "ops", "--json"],
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    refuses((done.returncode, "", done.stderr), "No space left on device")


def test_too_little_memory(run: Run, built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhaust(_path: Path) -> None:
        raise MemoryError

    monkeypatch.setattr("daedal.commands.run.load_arrays", exhaust)
    answer = run("run", built / "digits.daedal", "-i", built / "images.npz")
    refuses(answer, "needs more memory than there is")


def test_caches_that_cannot_be_used_are_mentioned(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command works without, and finds nothing in the working folder."""
    (tmp_path / "daedal").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    status, _, err = run("compile", DIGITS, "-v", "tiny", "-o", "x.daedal")
    assert status == 0
    assert err.startswith("note: not all is kept for the next run: ")
    assert f"'{tmp_path / 'daedal'}' is not used, as it is no folder; set XDG_CACHE_HOME" in err
    assert sorted(os.listdir()) == ["daedal", "x.daedal"]


def test_children_import_nothing_from_the_working_folder(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.setattr(cli, "app", lambda: print(os.environ["PYTHONSAFEPATH"]))
    assert run()[1] == "1\n"
    assert "PYTHONSAFEPATH" not in os.environ


def test_a_name_that_the_terminal_cannot_show(run: Run, tmp_path: Path) -> None:
    """It is no UTF-8: the letters that are not are escaped."""
    output = tmp_path / os.fsdecode(b"a \xff.daedal")
    status, out, err = run("compile", DIGITS, "-v", "tiny", "-o", output)
    assert status == 0, err
    assert "a \\udcff.daedal: " in out
    assert output.is_file()
