"""``daedal run``: what it prints and saves, and one sentence for everything that does not fit."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from daedal.artifact.artifact import Artifact, Launch
from daedal.runtime.layers import layer_tags
from examples.digits.data import demo_images
from tests.support.command_line import Run, refuses

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_qdq.onnx"


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
def test_run_on_the_rtl_reports_every_layer(run: Run, built: Path) -> None:
    arguments = ("run", built / "digits.daedal", "-i", built / "images.npz", "--device", "rtl")
    arguments = (*arguments, "--assertions")
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


def test_check_that_passes(run: Run, built: Path) -> None:
    arguments = ("run", built / "digits.daedal", "-i", built / "images.npz", "--check", DIGITS)
    status, out, err = run(*arguments)
    assert status == 0, err
    assert "probabilities (2, 10)" in out
    last = out.splitlines()[-1]
    assert re.fullmatch(
        r"check: 8 tensors \([\d,]+ integers\) of 2 runs equal the .* reference", last
    )
    status, out, _ = run(*arguments, "--device", "timing", "--json")
    check = json.loads(out)["check"]
    assert status == 0 and check["passed"] and check["first_difference"] is None
    assert [item["layer"] for item in check["tensors"]][:2] == [None, "conv0_linear"]
    assert all(item["difference"]["num_different"] == 0 for item in check["tensors"])


def test_check_names_the_first_layer_that_differs(run: Run, built: Path, tmp_path: Path) -> None:
    """A requantization of conv3 that gives one number only."""
    artifact = Artifact.load(built / "digits.daedal")
    tag = next(layer.tag for layer in artifact.layers if layer.name == "conv3_linear")
    items = list(artifact.program.instructions)
    number = next(
        number
        for number, layer in enumerate(layer_tags(artifact.program))
        if layer == tag and "high" in items[number].values
    )
    items[number] = items[number].replace(low=items[number].high)
    program = replace(artifact.program, instructions=tuple(items))
    parts = (replace(x, program=program) if isinstance(x, Launch) else x for x in artifact.parts)
    replace(artifact, parts=tuple(parts)).save(tmp_path / "wrong.daedal")

    arguments = ("run", tmp_path / "wrong.daedal", "-i", built / "images.npz", "--check", DIGITS)
    status, out, err = run(*arguments)
    assert status == 1 and "Traceback" not in err
    lines = out[out.index("check: ") :].splitlines()
    assert lines[0] == (
        "check: layer conv3_linear (q_conv2d) of launch 0, tensor 'conv3_q' differs from the "
        "integer reference"
    )
    assert re.search(r"of 1,024 elements \[2, 32, 4, 4\] differ, by up to \d+: items 0-1", lines[1])
    (row,) = [line.split() for line in lines if line.startswith(" (0, 0, 0, 0)")]
    assert row[-1] == str(items[number].high) != row[-2]
    assert lines[-1].startswith("what comes before it is equal")

    status, out, _ = run(*arguments, "--json")
    check = json.loads(out)["check"]
    assert status == 1 and not check["passed"]
    assert check["first_difference"]["tensor"] == "conv3_q"
    first = check["first_difference"]["difference"]["first"][0]
    assert first["found"] == items[number].high != first["expected"]


def test_check_with_another_model(run: Run, built: Path, tmp_path: Path) -> None:
    model = onnx.load(DIGITS)
    model.graph.input[0].name = "picture"
    for node in model.graph.node:
        node.input[:] = ["picture" if name == "input" else name for name in node.input]
    onnx.save(model, tmp_path / "other.onnx")
    arguments = ("run", built / "digits.daedal", "-i", built / "images.npz", "--check")
    other = run(*arguments, tmp_path / "other.onnx")
    refuses(other, "a check needs the model that the artifact was compiled from", "'input'")
    refuses(run(*arguments, tmp_path / "none.onnx"), "a model must be a readable file")


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
        ({"picture": image}, "one array for each input, under its name, and 'input' is missing"),
        ({"input": image, "more": image}, "'more' is no input; the model has 'input'"),
        ({"input": image[0]}, "must have shape (1, 1, 8, 8)"),
        ({"input": image[:0]}, "not (0, 1, 8, 8)"),
        ({"input": image.astype(complex)}, "must be float32, not complex128"),
        ({"input": image * np.nan}, "inputs must be numbers, and input 'input' has NaN"),
        ({"input": image.astype(float) + 1e300}, "must fit float32, and has larger values"),
    ]
    for arrays, part in cases:
        np.savez(tmp_path / "x.npz", **arrays)
        refuses(run("run", built / "digits.daedal", "-i", tmp_path / "x.npz"), part)


def test_unknown_device(run: Run, built: Path) -> None:
    arguments = ("run", built / "digits.daedal", "-i", built / "images.npz", "--device", "toaster")
    refuses(run(*arguments), "a device is one of functional, ", "not 'toaster'")


def test_wave_window(run: Run, built: Path) -> None:
    arguments = ("run", built / "digits.daedal", "-i", built / "images.npz", "--device", "rtl")
    for window in ("9:3", "3:3", "²:³", "0:٣", "1", "1:2:3", "-1:2", " 1:2", "0:" + "9" * 5000):
        refuses(run(*arguments, f"--wave={window}"), "--wave must be FIRST:END", f"'{window[:9]}")


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


def test_options_of_a_device(run: Run, built: Path, tmp_path: Path) -> None:
    arguments = ("run", built / "digits.daedal", "-i", built / "images.npz", "--device", "uio")
    answer = run(*arguments, "--option", f"sysfs={tmp_path}", "--option", "memory=/dev/none")
    refuses(answer, "a driver must tell about its device in /sys", str(tmp_path), "none/phys_addr")
    refuses(run(*arguments, "--option", "speed=3"), "must be NAME=VALUE", "'speed=3' is not")
