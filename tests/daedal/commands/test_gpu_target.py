"""``--target gpu``: compile, inspect and run for GPUs, and the refusals around it."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import daedal
from daedal.artifact.artifact import Artifact
from daedal.common.errors import UserError
from daedal.native.levels import host_level
from examples.digits.data import demo_images
from tests.support.command_line import Run, refuses
from tests.support.host_models import SHAPE, one_model
from tests.support.planted import LACKING, plant_no_square_roots

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "digits" / "digits_qdq.onnx"
EMULATED = f"emulated-{host_level()}"


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without a GPU."""
    monkeypatch.setattr("daedal.api.find_gpu", lambda: None)


def small() -> bytes:
    """``y = relu(x @ w + b)``, where an interpreted node gives b, which is 0."""
    weights = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Bernoulli", ["z"], ["b"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    zeros = numpy_helper.from_array(np.zeros(SHAPE, np.float32), "z")
    return one_model(nodes, [numpy_helper.from_array(weights, "w"), zeros])


X = np.array([[1, -2, 3], [0.5, 0, 1]], np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model, the same and digits compiled for GPUs, and inputs."""
    made = tmp_path_factory.mktemp("gpu")
    onnx.save(onnx.ModelProto.FromString(small()), made / "small.onnx")
    daedal.compile(made / "small.onnx", target="gpu").save(made / "small.daedal")
    daedal.compile(DIGITS, target="gpu").save(made / "digits.daedal")
    np.savez(made / "images.npz", input=demo_images(2)[0])
    np.savez(made / "x.npz", x=X)
    return made


def test_compile_says_what_is_compiled(run: Run, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.daedal"
    status, out, err = run(
        "compile", folder / "small.onnx", "--target", "gpu:emulated", "-o", target
    )
    assert status == 0, err
    lines = out.splitlines()
    assert lines[0] == "18 multiply-accumulates on the GPU"
    assert lines[1] == f"part 0, on the GPU: 3 nodes compiled for {EMULATED}, 1 interpreted"
    assert lines[2].startswith("interpreted: Bernoulli (one node): ")
    assert lines[3] == f"{target}: kernels for GPUs; `daedal inspect` shows more"
    part = Artifact.load(target).host_parts[0]
    assert not part.codes and part.gpu is not None


def test_compile_says_what_the_processor_runs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel of some, and the only one."""
    plant_no_square_roots(monkeypatch)
    weights = np.full((3, 3), 0.5, np.float32)
    root = helper.make_node("Sqrt", ["x"], ["a"])
    product = helper.make_node("MatMul", ["a", "w"], ["b"])
    norm = helper.make_node("Softmax", ["b"], ["y"])
    model, target = tmp_path / "m.onnx", tmp_path / "x.daedal"
    model.write_bytes(one_model([root, product, norm], [numpy_helper.from_array(weights, "w")]))
    status, out, err = run("compile", model, "--target", "gpu", "-o", target)
    assert status == 0, err
    assert f"on the processor: the kernel of a: {LACKING}" in out.splitlines()
    status, out, err = run("run", target, "-i", _x(tmp_path), "--device", "gpu-emulated")
    assert status == 0 and "y (2, 3)" in out, err
    model.write_bytes(one_model([helper.make_node("Sqrt", ["x"], ["y"])]))
    status, out, err = run("compile", model, "--target", "gpu", "-o", target)
    assert status == 0, err
    why = f"GPUs have no code for any kernel of the model: {LACKING}"
    assert f"on the processor: {why}" in out.splitlines()
    assert out.splitlines()[-1].startswith(f"{target}: machine code for processors")


def test_compile_says_once_why_nothing_is_worth_a_transfer(run: Run, tmp_path: Path) -> None:
    """Of an accelerator's artifact, in which a GPU could run something."""
    status, out, err = run("compile", DIGITS, "--target", "vta+gpu", "-o", tmp_path / "x.daedal")
    assert status == 0, err
    lines = [line for line in out.splitlines() if "the GPU would take" in line]
    assert len(lines) == 2 and all(line.startswith("on the host: ") for line in lines)
    assert "on the GPU" not in out and "on the processor" not in out


def _x(folder: Path) -> Path:
    np.savez(folder / "abs.npz", x=abs(X))
    return folder / "abs.npz"


def test_compile_as_json_with_code_for_processors(run: Run, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.daedal"
    options = ("--target", "gpu:emulated", "--cpu-level", "x86-64", "--json")
    status, out, err = run("compile", folder / "small.onnx", "-o", target, *options)
    assert status == 0, err
    report = json.loads(out)
    (code,) = report["code"]
    assert list(code["levels"]) == ["x86-64"] and list(code["architectures"]) == [EMULATED]
    assert (code["kernels"], code["calls"]) == (1, 1)
    assert {item["where"] for item in report["placements"]} == {"gpu"}
    assert (report["variant"], report["share_of_macs"]) == (None, 0.0)


def test_inspect(run: Run, folder: Path) -> None:
    status, out, err = run("inspect", folder / "small.daedal")
    assert status == 0, err
    assert out.startswith("for GPUs\n") and "3 nodes compiled for" in out
    status, out, _ = run("inspect", folder / "small.daedal", "--json")
    report = json.loads(out)
    (part,) = report["parts"]
    assert status == 0 and part["kind"] == "gpu" and part["seconds"] is None
    assert EMULATED in part["code"]["architectures"]


def test_without_a_gpu_the_processor_runs_it(run: Run, folder: Path) -> None:
    arguments = ("run", folder / "small.daedal", "-i", folder / "x.npz", "--json")
    status, out, err = run(*arguments)
    assert status == 0, err
    assert (
        "part 0 has code for GPUs alone, and none is used; its ONNX model is compiled again" in err
    )
    emulated = json.loads(run(*arguments, "--device", "gpu-emulated")[1])
    np.testing.assert_allclose(json.loads(out)["outputs"]["y"], emulated["outputs"]["y"], 1e-6)


def test_code_for_opencl_alone(run: Run, folder: Path, tmp_path: Path) -> None:
    """There is no device for it: every run compiles the model again, and says so."""
    target = tmp_path / "x.daedal"
    status, out, err = run("compile", folder / "small.onnx", "--target", "gpu:spirv", "-o", target)
    assert status == 0, err
    assert "part 0, on the GPU: 3 nodes compiled for spirv, 1 interpreted" in out
    status, _, err = run("run", target, "-i", folder / "x.npz")
    assert status == 0
    assert "part 0 has code for GPUs alone, and none is used; its ONNX model is compiled" in err
    status, _, err = run("run", target, "-i", folder / "x.npz", "--device", "gpu-emulated")
    assert status == 0
    assert "part 0 has code for spirv, not for emulated GPU; its ONNX model is compiled" in err


def test_run_on_the_emulated_gpu(run: Run, folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "outputs.npz"
    arguments = ("run", folder / "digits.daedal", "-i", folder / "images.npz", "-o", saved)
    status, out, err = run(*arguments, "--device", "gpu-emulated", "--option", "seed=3")
    assert status == 0 and "compiled again" not in err, err
    assert "probabilities (2, 10)" in out
    with np.load(saved) as outputs:
        found = outputs["probabilities"]
    assert found.argmax(axis=1).tolist() == demo_images(2)[1].tolist()


def test_precision_of_products(run: Run, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.daedal"
    given = ("compile", folder / "small.onnx", "-o", target, "--precision", "float16")
    status, _, err = run(*given, "--target", "gpu:emulated")
    assert status == 0, err
    refuses(run(*given, "--target", "vta"), "precision float16 needs target gpu, not vta")
    refuses(
        run(*given[:-1], "half", "--target", "gpu"),
        "must be one of float32, float16, bfloat16, not 'half'",
    )


def test_code_that_was_not_compiled_here(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = folder / "small.daedal"
    arguments = ("run", path, "-i", folder / "x.npz", "--device", "gpu-emulated", "--json")
    status, trusted, err = run(*arguments, "--trust")
    assert status == 0 and "compiled again" not in err
    status, out, err = run(*arguments)
    assert status == 0 and out == trusted
    assert "part 0 has machine code that was not compiled here; its ONNX model is compiled" in err
    status, _, err = run(*arguments)  # it is the same code, which is known now
    assert status == 0 and "compiled again" not in err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--device", "functional"), ", not 'functional'"),
        (("--device", "gpu-emulated", "--option", "order=1"), "'gpu-emulated' must be NAME=VALUE"),
        (("--device", "gpu-emulated", "--option", "seed=x"), "'seed' must be a number, not 'x'"),
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


def test_an_accelerator_and_a_gpu(run: Run, folder: Path, tmp_path: Path) -> None:
    path, images = tmp_path / "both.daedal", folder / "images.npz"
    daedal.compile(DIGITS, target="vta+gpu:emulated").save(path)
    status, _, err = run("run", path, "-i", images, "--device", "functional+gpu-emulated")
    assert status == 0 and "running on functional+gpu-emulated" in err
    result = run("run", path, "-i", images, "--device", "gpu-emulated")
    refuses(result, "a device for these, too, as in functional+gpu-emulated, not 'gpu-emulated'")


def test_commands_of_an_accelerator(run: Run, folder: Path) -> None:
    result = run("trace", folder / "digits.daedal")
    refuses(result, "an artifact with a program for an accelerator", "--target VARIANT")


def test_a_profile_without_a_device_names_those_for_gpus(run: Run, folder: Path) -> None:
    result = run("profile", folder / "digits.daedal")
    refuses(result, "--device cuda", "--device gpu-emulated for its kernels without times")


def test_an_artifact_for_processors_has_no_gpu() -> None:
    artifact = daedal.compile(small(), target="cpu")
    with pytest.raises(UserError, match="has nothing for a device to run"):
        daedal.simulate(artifact, {"x": X}, device="gpu-emulated")
