"""``--target gpu``: compile, inspect and run for GPUs, and the refusals around it."""

import json
from pathlib import Path

import numpy as np
import pytest

import daedal
from daedal.artifact.artifact import Artifact
from daedal.common.errors import UserError
from daedal.native.levels import host_level
from examples.digits.data import demo_images
from tests.support.command_line import Run, refuses

ROOT = Path(__file__).resolve().parents[3]
FLOAT = ROOT / "examples" / "digits" / "digits.onnx"
DIGITS = ROOT / "examples" / "digits" / "digits_qdq.onnx"
EMULATED = f"emulated-{host_level()}"


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without a GPU."""
    monkeypatch.setattr("daedal.api.find_gpu", lambda: None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both digits networks compiled for GPUs, and two images."""
    made = tmp_path_factory.mktemp("gpu")
    for path in (FLOAT, DIGITS):
        daedal.compile(path, target="gpu").save(made / f"{path.stem}.daedal")
    np.savez(made / "images.npz", input=demo_images(2)[0])
    return made


def test_compile_says_what_is_compiled(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "x.daedal"
    status, out, err = run("compile", FLOAT, "--target", "gpu:emulated", "-o", target)
    assert status == 0, err
    lines = out.splitlines()
    assert lines[0] == "379,136 multiply-accumulates on the GPU"
    assert lines[1] == f"part 0, on the GPU: 14 nodes compiled for {EMULATED}, 0 interpreted"
    assert lines[2] == f"{target}: kernels for GPUs; `daedal inspect` tells more"
    part = Artifact.load(target).host_parts[0]
    assert part.code is None and part.gpu is not None


def test_compile_as_json_with_code_for_processors(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "x.daedal"
    options = ("--target", "gpu:emulated", "--cpu-level", "x86-64", "--json")
    status, out, err = run("compile", FLOAT, "-o", target, *options)
    assert status == 0, err
    report = json.loads(out)
    (code,) = report["code"]
    assert list(code["levels"]) == ["x86-64"] and list(code["architectures"]) == [EMULATED]
    assert 0 < code["kernels"] <= code["calls"]
    assert {item["where"] for item in report["placements"]} == {"gpu"}
    assert (report["variant"], report["share_of_macs"]) == (None, 0.0)


def test_inspect(run: Run, folder: Path) -> None:
    status, out, err = run("inspect", folder / "digits.daedal")
    assert status == 0, err
    assert out.startswith("for GPUs\n") and "14 nodes compiled for" in out
    status, out, _ = run("inspect", folder / "digits.daedal", "--json")
    report = json.loads(out)
    (part,) = report["parts"]
    assert status == 0 and part["kind"] == "gpu" and part["seconds"] is None
    assert EMULATED in part["code"]["architectures"]


@pytest.mark.parametrize("name", ["digits", "digits_qdq"])
def test_without_a_gpu_the_processor_runs_it(run: Run, folder: Path, name: str) -> None:
    arguments = ("run", folder / f"{name}.daedal", "-i", folder / "images.npz", "--json")
    status, out, err = run(*arguments)
    assert status == 0, err
    assert (
        "part 0 has code for GPUs alone, and none is used; its ONNX model is compiled again" in err
    )
    _, labels = demo_images(2)
    found = np.array(json.loads(out)["outputs"]["probabilities"])
    assert found.argmax(axis=1).tolist() == labels.tolist()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--device", "functional"), "a GPU is one of "),
        (("--option", "seed=1"), "an --option is one of a device; give its --device, too"),
        (("-v", "tiny"), "is for GPUs, so a run must have no --variant, --check and --wave"),
        (("--check", DIGITS), "is for GPUs, so a run must have no --variant"),
        (("--wave", "0:1"), "is for GPUs, so a run must have no --variant"),
    ],
)
def test_runs_that_are_refused(
    run: Run, folder: Path, options: tuple[object, ...], sentence: str
) -> None:
    refuses(run("run", folder / "digits.daedal", "-i", folder / "images.npz", *options), sentence)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--target", "gpu:sm_20"), "an architecture of a GPU must be one of emulated"),
        (("--target", "gpu:"), "an architecture of a GPU must be one of emulated"),
        (("--target", "gpu", "-v", "vta"), "a target must be given once"),
        (("--target", "gpu", "--from", "conv0_q"), "target 'gpu' takes whole models"),
        (("--target", "gpu", "--all-on-accelerator"), "target 'gpu' has none"),
    ],
)
def test_compilations_that_are_refused(
    run: Run, tmp_path: Path, options: tuple[str, ...], sentence: str
) -> None:
    refuses(run("compile", DIGITS, "-o", tmp_path / "x.daedal", *options), sentence)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [("profile",), ("trace",)])
def test_commands_of_an_accelerator(run: Run, folder: Path, command: tuple[str, ...]) -> None:
    result = run(*command, folder / "digits.daedal")
    refuses(result, "an artifact with a program for an accelerator", "--target VARIANT")


def test_an_artifact_for_processors_has_no_gpu(folder: Path) -> None:
    artifact = daedal.compile(FLOAT, target="cpu")
    with pytest.raises(UserError, match="has nothing for a device to run"):
        daedal.simulate(artifact, {"input": demo_images(1)[0]}, device="gpu-emulated")
