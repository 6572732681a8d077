"""Mutated files on the command line: an exit status, one sentence, and no file but what was asked
for."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from daedal import cli
from daedal.artifact.artifact import Artifact
from tests.robustness.cases import artifact_case, cpu_model_case, model_case
from tests.robustness.models import MODEL_NAMES, small_model

Run = Callable[..., tuple[int, str]]

NAMES = ("../../up", "/x/y", "[/red]", "[bold]b[/bold]", "a/b\\c", "层 ü", "n" * 1_000, "{0}%s")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run the command line in ``inner``; exit status, and all that it printed."""
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "outer" / "inner")

    def call(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["daedal", *map(str, arguments)])
        status = 0
        try:
            cli.main()
        except SystemExit as end:
            status = int(end.code or 0)
        streams = capsys.readouterr()
        printed = streams.out + streams.err
        assert all(line.isprintable() for line in printed.split("\n")), printed
        assert "Traceback" not in printed
        assert (status == 0) == ("error: " not in streams.err), printed
        return status, printed

    return call


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def inputs_of(path: Path) -> Path:
    artifact = Artifact.load(path)
    arrays = {value.name: np.zeros(value.shape, np.float32) for value in artifact.inputs}
    np.savez("inputs.npz", **arrays)
    return Path("inputs.npz")


@pytest.mark.parametrize("number", range(0, 400, 29))
def test_mutated_models(run: Run, tmp_path: Path, number: int) -> None:
    case = model_case(number)
    print(case.description)
    Path("model.onnx").write_bytes(case.data)
    before = files(tmp_path)
    status, _ = run("compile", "model.onnx", "-v", "tiny", "-o", "x.daedal", "--dump-dir", "dump")
    made = {name for name in files(tmp_path) - before if not name.startswith("outer/inner/dump/")}
    assert (status, made) in ((0, {"outer/inner/x.daedal"}), (2, set()))


@pytest.mark.parametrize("number", range(0, 300, 37))
def test_mutated_models_for_processors(run: Run, tmp_path: Path, number: int) -> None:
    case = cpu_model_case(number)
    print(case.description)
    Path("model.onnx").write_bytes(case.data)
    before = files(tmp_path)
    status, _ = run("compile", "model.onnx", "--target", "cpu", "-o", "x.daedal")
    made = files(tmp_path) - before
    assert (status, made) in ((0, {"outer/inner/x.daedal"}), (2, set()))
    if status == 0:
        assert run("inspect", "x.daedal")[0] == 0


@pytest.mark.parametrize("number", range(0, 120, 7))
def test_mutated_artifacts(run: Run, tmp_path: Path, number: int) -> None:
    case = artifact_case(number)
    print(case.description)
    Path("x.daedal").write_bytes(case.data)
    status, _ = run("inspect", "x.daedal")
    assert status in (0, 2)
    if status:
        np.savez("inputs.npz", x=np.zeros(1, np.float32))
    else:
        inputs_of(Path("x.daedal"))
    before = files(tmp_path)
    status, _ = run("run", "x.daedal", "-i", "inputs.npz", "--device", "timing", "-o", "y.npz")
    made = files(tmp_path) - before
    assert made == ({"outer/inner/y.npz"} if status == 0 else set()) and status in (0, 1, 2)


@pytest.mark.parametrize("name", NAMES)
def test_names_stay_text(run: Run, tmp_path: Path, name: str) -> None:
    """Whatever tensors are called: files lie where they were asked for, and tables show it."""
    model = onnx.ModelProto.FromString(small_model("residual"))
    old = str(model.graph.node[-2].output[0])
    for node in model.graph.node:
        node.name = name
        for names in (node.input, node.output):
            names[:] = [name if item == old else item for item in names]
    del model.graph.value_info[:]
    Path("model.onnx").write_bytes(model.SerializeToString())
    arguments = ("-v", "tiny", "-o", "x.daedal", "--dump-dir", "dump")
    assert run("compile", "model.onnx", *arguments)[0] == 0
    inputs = inputs_of(Path("x.daedal"))
    for command in (
        ("inspect", "x.daedal"),
        ("run", "x.daedal", "-i", inputs, "--device", "timing", "-o", "y.npz"),
        ("disasm", "x.daedal"),
    ):
        assert run(*command)[0] == 0, command
    made = files(tmp_path / "outer" / "inner")
    kept = {item for item in made if not item.startswith("dump/")}
    assert kept == {"inputs.npz", "model.onnx", "x.daedal", "y.npz"}
    assert files(tmp_path) == {f"outer/inner/{item}" for item in made}


def test_every_small_model_compiles(run: Run) -> None:
    for name in MODEL_NAMES:
        Path("model.onnx").write_bytes(small_model(name))
        assert run("compile", "model.onnx", "-v", "tiny", "-o", "x.daedal")[0] == 0, name
