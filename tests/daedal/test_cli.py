"""The command line: every command, and one sentence with exit status 2 for every bad input."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import daedal
from daedal import cli
from daedal.isa.artifact import Artifact, Launch
from daedal.isa.assembly import assemble
from daedal.isa.program import Program
from daedal.isa.variant import load_variant
from examples.digits.data import demo_images

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_qdq.onnx"
FLOAT = ROOT / "examples" / "digits" / "digits.onnx"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in this process; exit status, standard output, standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["daedal", *map(str, arguments)])
        status = 0
        try:
            cli.main()
        except SystemExit as end:
            status = int(end.code or 0)
        streams = capsys.readouterr()
        return status, streams.out, streams.err

    return call


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the digits network compiled for `tiny`, and two images."""
    folder = tmp_path_factory.mktemp("built")
    daedal.compile(DIGITS, "tiny").save(folder / "digits.daedal")
    np.savez(folder / "images.npz", input=demo_images(2)[0])
    return folder


def refuses(result: tuple[int, str, str], *parts: str) -> str:
    """Exit status 2, nothing on standard output, one last sentence that has all `parts`."""
    status, out, err = result
    assert status == 2, err
    assert out == ""
    assert "Traceback" not in err
    *progress, last = err.splitlines()
    assert last.startswith("error: ")
    assert not any(line.startswith("error:") for line in progress)
    for part in parts:
        assert part in last
    return last


# Every command does what it says.


def test_compile_lists_layers_and_host_steps(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "digits.daedal"
    status, out, err = run("compile", DIGITS, "-v", "tiny", "-o", target)
    assert status == 0, err
    assert "conv3_linear" in out and "147,456" in out and "permute and pad" in out
    assert "softmax" in out and load_variant("tiny").fingerprint in out
    assert target.is_file() and list(tmp_path.iterdir()) == [target]


def test_compile_a_part_as_json(run: Run, tmp_path: Path) -> None:
    status, out, _ = run(
        *("compile", DIGITS, "-v", "tiny", "-o", tmp_path / "part.daedal", "--json"),
        *("--from", "conv0_q", "--to", "conv1_q", "--dump-dir", tmp_path / "dump"),
    )
    assert status == 0
    report = json.loads(out)
    assert [layer["output"] for layer in report["layers"]] == ["conv1_q"]
    assert report["inputs"] == [{"name": "conv0_q", "shape": [1, 16, 8, 8]}]
    assert report["host"] == [] or {item["op"] for item in report["host"]} <= {
        "permute and pad",
        "permute and crop",
    }
    assert any("to_blocked" in path.name for path in (tmp_path / "dump").iterdir())


def test_run_prints_outputs_and_saves_them(run: Run, built: Path, tmp_path: Path) -> None:
    target = tmp_path / "outputs.npz"
    artifact, images = built / "digits.daedal", built / "images.npz"
    status, out, err = run("run", artifact, "-i", images, "-o", target)
    assert status == 0, err
    assert "probabilities (2, 10)" in out
    with np.load(target) as saved:
        predictions = saved["probabilities"].argmax(axis=1)
    assert predictions.tolist() == demo_images(2)[1].tolist()


def test_run_as_json(run: Run, built: Path) -> None:
    status, out, _ = run(
        *("run", built / "digits.daedal", "-i", built / "images.npz", "--json", "-v", "tiny")
    )
    report = json.loads(out)
    assert status == 0
    assert np.argmax(report["outputs"]["probabilities"], axis=1).tolist() == [3, 1]
    assert [item["device"] for item in report["runs"]] == ["functional", "functional"]


@pytest.mark.rtl
def test_run_on_the_rtl_reports_every_layer(
    run: Run, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)  # simulators are kept in .daedal under the working folder
    arguments = ("run", built / "digits.daedal", "-i", built / "images.npz", "--device", "rtl")
    status, out, err = run(*arguments)
    assert status == 0, err
    assert "of peak" in out and "maxpool0" in out and "Units over" in out
    status, out, _ = run(*arguments, "--json", "--memory", "ideal")
    first = json.loads(out)["runs"][0]
    assert [layer["tag"] for layer in first["layers"]] == list(range(7))
    for layer in first["layers"]:
        assert {"cycles", "macs", "products", "bytes_read", "bytes_written"} <= set(layer)
    for counters in first["units"].values():
        work = counters.pop("work")
        assert work >= 0 and sum(counters.values()) == first["cycles"]


def test_verilog_and_header(run: Run, tmp_path: Path) -> None:
    source, header = tmp_path / "tiny.v", tmp_path / "regs.h"
    status, out, err = run("verilog", "tiny", "-o", source, "--header", header)
    assert status == 0, err
    assert out == "" and "top module daedal_top" in err
    assert re.search(r"^module daedal_top\b", source.read_text(), re.MULTILINE)
    assert "#define" in header.read_text()


def test_disasm_reads_back(run: Run, built: Path, tmp_path: Path) -> None:
    status, out, _ = run("disasm", built / "digits.daedal", "--no-numbered")
    assert status == 0
    program = Program(load_variant("tiny"), tuple(assemble(out)))
    program.save(tmp_path / "alone.daedal")
    assert run("disasm", tmp_path / "alone.daedal", "--no-numbered")[1] == out
    listed = json.loads(run("disasm", built / "digits.daedal", "--json")[1])
    assert [item["opcode"] for item in listed] == [line.split()[0] for line in out.splitlines()]


def test_doctor_names_every_tool_and_its_cost(run: Run) -> None:
    status, out, _ = run("doctor")
    assert status == 0 and "verilator" in out and "C++ compiler" in out
    records = json.loads(run("doctor", "--json")[1])
    assert {"name", "version", "needed_for", "how_to_get"} == set(records[0])


def test_doctor_without_tools(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    status, out, _ = run("doctor", "--json")
    missing = {item["name"] for item in json.loads(out) if item["version"] is None}
    assert status == 0 and {"make", "icarus"} <= missing
    assert "missing" in run("doctor")[1]


# Bad input: a model.


def test_truncated_model(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cut.onnx").write_bytes(DIGITS.read_bytes()[:5000])
    result = run("compile", tmp_path / "cut.onnx", "-o", tmp_path / "x.daedal")
    refuses(result, "a model must be a complete ONNX file", "export or download it again")
    assert [path.name for path in tmp_path.iterdir()] == ["cut.onnx"]


def test_float_model(run: Run, tmp_path: Path) -> None:
    result = run("compile", FLOAT, "-o", tmp_path / "x.daedal")
    refuses(result, "must be quantized to int8 (QDQ)", "'digits'", "quantize_static")
    assert not list(tmp_path.iterdir())


def test_an_operator_that_only_the_host_has(run: Run, tmp_path: Path) -> None:
    model = onnx.load(DIGITS)
    last = model.graph.node[-1]
    last.CopyFrom(helper.make_node("Hardmax", last.input, last.output, name="winner"))
    onnx.save(model, tmp_path / "hardmax.onnx")
    status, _, err = run("compile", tmp_path / "hardmax.onnx", "-o", tmp_path / "x.daedal")
    assert status == 0, err
    placed = {item.node: item for item in Artifact.load(tmp_path / "x.daedal").placements}
    assert (placed["winner"].where, placed["winner"].why) == (
        "host",
        "the compiler has no such operator",
    )


def test_model_that_is_not_there(run: Run, tmp_path: Path) -> None:
    result = run("compile", tmp_path / "none.onnx", "-o", tmp_path / "x.daedal")
    refuses(result, "a model must be a readable file", "none.onnx", "check the path")


def test_cut_at_an_unknown_tensor(run: Run, tmp_path: Path) -> None:
    result = run("compile", DIGITS, "-o", tmp_path / "x.daedal", "--to", "nothing_q")
    refuses(result, "a cut must name tensors that the graph computes, not 'nothing_q'")
    assert not list(tmp_path.iterdir())


# Bad input: a variant.


def test_variant_that_cannot_be_built(run: Run, tmp_path: Path) -> None:
    text = (ROOT / "variants" / "tiny.toml").read_text()
    bad = tmp_path / "bad.toml"
    bad.write_text(text.replace("block_in = 8", "block_in = 7"))
    for command in (["verilog", bad], ["compile", DIGITS, "-v", bad, "-o", tmp_path / "x.daedal"]):
        refuses(run(*command), "block_in", "7")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"]


@pytest.mark.parametrize(
    ("text", "part"),
    [("[array", "TOML"), ('name = "x"\ncolour = 3\n', "colour"), ("", "must give")],
)
def test_variant_file_that_is_none(run: Run, tmp_path: Path, text: str, part: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    refuses(run("verilog", tmp_path / "bad.toml"), part)


def test_unknown_variant(run: Run) -> None:
    refuses(run("verilog", "huge"), "a variant is one of batch4, ecp5", "'huge'")


def test_layer_that_does_not_fit(run: Run, tmp_path: Path) -> None:
    """Capacities that a machine can have, and no tile of this network can."""
    text = (ROOT / "variants" / "tiny.toml").read_text()
    (tmp_path / "small.toml").write_text(text.replace("wgt_bytes = 8_192", "wgt_bytes = 128"))
    status, _, err = run(
        *("compile", DIGITS, "-v", tmp_path / "small.toml", "-o", tmp_path / "x.daedal")
    )
    assert status == 2 and "Traceback" not in err and "error: " in err
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


# Bad input: a program.


def test_program_of_another_variant(run: Run, built: Path) -> None:
    result = run("run", built / "digits.daedal", "-i", built / "images.npz", "-v", "vta")
    refuses(result, "the variant it was compiled for ('tiny'", "'vta'", "compile it for that")


def edited(source: Path, target: Path, change: Callable[[dict], None]) -> Path:
    """A copy of an artifact whose program's manifest was edited by hand."""
    with zipfile.ZipFile(source) as outer, zipfile.ZipFile(target, "w") as copy:
        for name in outer.namelist():
            data = outer.read(name)
            if name.endswith(".daedal"):
                inner = target.with_suffix(".inner")
                inner.write_bytes(data)
                data = rewritten(inner, change)
                inner.unlink()
            copy.writestr(name, data)
    return target


def rewritten(path: Path, change: Callable[[dict], None]) -> bytes:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    members["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path.read_bytes()


def test_artifact_edited_by_hand(run: Run, built: Path, tmp_path: Path) -> None:
    def change(manifest: dict) -> None:
        manifest["fingerprint"] = "0" * 16

    artifact = edited(built / "digits.daedal", tmp_path / "edited.daedal", change)
    refuses(run("run", artifact, "-i", built / "images.npz"), "compile it again")


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


# Bad input: arrays.


def test_input_files_that_are_none(run: Run, built: Path, tmp_path: Path) -> None:
    artifact = built / "digits.daedal"
    np.save(tmp_path / "single.npy", np.zeros(3))
    np.savez(tmp_path / "pickled.npz", input=np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "text.npz").write_text("no arrays")
    for name in ("single.npy", "pickled.npz", "text.npz"):
        result = run("run", artifact, "-i", tmp_path / name)
        refuses(result, "must be a .npz of arrays by name, without pickled objects", name)
    refuses(run("run", artifact, "-i", tmp_path / "none.npz"), "a readable file", "none.npz")


def test_inputs_that_do_not_fit(run: Run, built: Path, tmp_path: Path) -> None:
    image = np.zeros((1, 1, 8, 8), np.float32)
    cases = [
        ({"picture": image}, "exactly the inputs 'input'; 'input' is missing"),
        ({"input": image, "more": image}, "'more' is none of them"),
        ({"input": image[0]}, "must have shape (1, 1, 8, 8)"),
        ({"input": image[:0]}, "not (0, 1, 8, 8)"),
        ({"input": image.astype(complex)}, "must be float32, not complex128"),
    ]
    for arrays, part in cases:
        np.savez(tmp_path / "x.npz", **arrays)
        refuses(run("run", built / "digits.daedal", "-i", tmp_path / "x.npz"), part)


# Bad input: options, folders and tools.


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


def test_unknown_device(run: Run, built: Path) -> None:
    arguments = ("run", built / "digits.daedal", "-i", built / "images.npz", "--device", "toaster")
    refuses(run(*arguments), "a device is one of functional, rtl, timing, not 'toaster'")


def test_wave_window(run: Run, built: Path) -> None:
    arguments = ("run", built / "digits.daedal", "-i", built / "images.npz", "--device", "rtl")
    refuses(run(*arguments, "--wave", "9:3"), "--wave must be FIRST:END", "'9:3'")


def test_missing_compiler(built: Path, tmp_path: Path) -> None:
    """As the user sees it: a process of its own, with nothing but Python to be found."""
    if shutil.which("g++", path=os.path.dirname(sys.executable)):
        pytest.skip("needs a folder of Python without a compiler in it")
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from daedal.cli import main; main()"),
            *("run", str(built / "digits.daedal"), "-i", str(built / "images.npz")),
            *("--device", "rtl"),
        ],
        cwd=tmp_path,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    refuses((done.returncode, done.stdout, done.stderr), "missing", "install")
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_usage_errors_are_typers(run: Run) -> None:
    for arguments in (["frobnicate"], ["compile"], ["run", "x", "-i", "y", "--memory", "sram"]):
        status, _, err = run(*arguments)
        assert status == 2 and "Usage" in err and "Traceback" not in err


def test_device_failures_exit_with_one(
    run: Run, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that is well-formed and wrong: its tokens do not balance."""
    artifact = Artifact.load(built / "digits.daedal")
    items = [item.replace(push=0) for item in artifact.program.instructions]
    program = dataclasses.replace(artifact.program, instructions=tuple(items))
    parts = [
        dataclasses.replace(part, program=program) if isinstance(part, Launch) else part
        for part in artifact.parts
    ]
    broken = built / "broken.daedal"
    dataclasses.replace(artifact, parts=tuple(parts)).save(broken)
    status, out, err = run("run", broken, "-i", built / "images.npz")
    assert status == 1 and out == "" and "every pop must find a token" in err


def test_interrupted(run: Run, built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "load_arrays", interrupt)
    status, out, err = run("run", built / "digits.daedal", "-i", built / "images.npz")
    assert status == 130 and out == "" and "Traceback" not in err
