"""``--target cpu``: compile, inspect and run for processors alone, and the refusals around it."""

import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import daedal
from daedal.artifact.artifact import Artifact, HostPart, Launch
from daedal.common.errors import UserError, VariantError
from daedal.compiler.artifact.host_code import saved_levels
from daedal.native.levels import adds_quads
from daedal.runtime.host import HostModel
from examples.digits.data import demo_images
from tests.support.command_line import Run, refuses

ROOT = Path(__file__).resolve().parents[3]
FLOAT = ROOT / "examples" / "digits" / "digits.onnx"
DIGITS = ROOT / "examples" / "digits" / "digits_qdq.onnx"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both digits networks compiled for processors, and two images."""
    made = tmp_path_factory.mktemp("processor")
    for path in (FLOAT, DIGITS):
        artifact = daedal.compile(path, target="cpu", cpu_levels=saved_levels())
        artifact.save(made / f"{path.stem}.daedal")
    np.savez(made / "images.npz", input=demo_images(2)[0])
    return made


def edited(source: Path, target: Path, end: str, data: bytes | None = None) -> Path:
    """A copy of an artifact with one bit of a member flipped, or other content, and a hash that
    fits where there is other content."""
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = next(name for name in members if name.endswith(end))
    changed = bytearray(members[name])
    changed[len(changed) // 2] ^= 1
    members[name] = bytes(changed) if data is None else data
    if data is not None:
        manifest = json.loads(members.pop("manifest.json"))
        del manifest["sha256"]
        digest = hashlib.sha256()
        for content in (json.dumps(manifest, sort_keys=True).encode(), *members.values()):
            digest.update(len(content).to_bytes(8, "little") + content)
        manifest["sha256"] = digest.hexdigest()
        members = {"manifest.json": json.dumps(manifest).encode(), **members}
    with zipfile.ZipFile(target, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return target


@pytest.mark.parametrize("model", [FLOAT, DIGITS])
def test_compile_says_what_is_compiled(run: Run, tmp_path: Path, model: Path) -> None:
    target = tmp_path / "x.daedal"
    status, out, err = run("compile", model, "--target", "cpu", "-o", target)
    assert status == 0, err
    lines = out.splitlines()
    assert lines[0] == "379,136 multiply-accumulates on the processor"
    nodes = len(onnx.ModelProto.FromString(Artifact.load(target).host_parts[0].model).graph.node)
    # VNNI and AMX have instructions for integers alone.
    has_code = [item for item in saved_levels() if model == DIGITS or not adds_quads(item)]
    levels = ", ".join(sorted(has_code))
    assert lines[1] == f"part 0, on the host: {nodes} nodes compiled for {levels}, 0 interpreted"
    assert lines[2] == f"{target}: machine code for processors; `daedal inspect` shows more"
    assert list(tmp_path.iterdir()) == [target]


def test_compile_as_json_for_chosen_levels(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "x.daedal"
    arguments = ("compile", FLOAT, "--target", "cpu", "-o", target, "--json")
    status, out, _ = run(*arguments, "--cpu-level", "aarch64", "--cpu-level", "x86-64")
    report = json.loads(out)
    (code,) = report["code"]
    assert status == 0
    assert (report["variant"], report["launches"], report["share_of_macs"]) == (None, [], 0.0)
    assert list(code["levels"]) == ["aarch64", "x86-64"] and min(code["levels"].values()) > 1000
    assert code["compiled"]["Conv"] == 4 and code["interpreted"] == []
    assert {item["where"] for item in report["placements"]} == {"host"}
    again = tmp_path / "again.daedal"
    run(*arguments[:4], "-o", again, "--cpu-level", "x86-64", "--cpu-level", "aarch64")
    assert again.read_bytes() == target.read_bytes()


@pytest.mark.parametrize("name", ["digits", "digits_qdq"])
def test_run(run: Run, folder: Path, tmp_path: Path, name: str) -> None:
    saved = tmp_path / "outputs.npz"
    arguments = ("run", folder / f"{name}.daedal", "-i", folder / "images.npz", "-o", saved)
    status, out, err = run(*arguments)
    assert status == 0 and "compiled again" not in err, err
    assert "probabilities (2, 10)" in out
    images, labels = demo_images(2)
    with np.load(saved) as outputs:
        found = outputs["probabilities"]
    assert found.argmax(axis=1).tolist() == labels.tolist()
    model = HostModel(Artifact.load(arguments[1]).host_parts[0].model, "the model")
    for image, row in zip(images, found, strict=True):
        (expected,) = model.run({"input": image[None].astype(np.float32)}).values()
        np.testing.assert_allclose(row[None], expected, atol=1e-6 if name == "digits" else 0.02)
    status, out, _ = run(*arguments, "--json")
    report = json.loads(out)
    assert status == 0 and report["runs"] == []
    np.testing.assert_allclose(report["outputs"]["probabilities"], found)


def test_inspect(run: Run, folder: Path) -> None:
    status, out, err = run("inspect", folder / "digits.daedal")
    assert status == 0, err
    assert out.startswith("for processors alone\n")
    assert "14 nodes compiled for" in out and "Layers on the accelerator" not in out
    status, out, _ = run("inspect", folder / "digits.daedal", "--json")
    report = json.loads(out)
    (part,) = report["parts"]
    assert status == 0 and report["variant"] is None and report["seconds"] == part["seconds"] > 0
    assert part["code"]["compiled"]["Gemm"] == 1 and part["code"]["memory_bytes"] > 40_000


def test_inspect_says_what_is_interpreted_and_why(run: Run, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Bernoulli", ["r"], ["y"], name="dice"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, [2])]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, tmp_path / "dice.onnx")
    target = tmp_path / "dice.daedal"
    status, compiled, err = run("compile", tmp_path / "dice.onnx", "--target", "cpu", "-o", target)
    assert status == 0, err
    status, inspected, err = run("inspect", target)
    assert status == 0, err
    for out in (compiled, inspected):
        assert "one node compiled" in out and ", 1 interpreted" in out
        assert "interpreted: Bernoulli (one node): the operator has no tensor expression" in out
    status, out, _ = run("inspect", target, "--json")
    (item,) = json.loads(out)["parts"][0]["code"]["interpreted"]
    assert (item["op"], item["nodes"]) == ("Bernoulli", 1)


def test_code_that_was_not_compiled_here(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("run", folder / "digits.daedal", "-i", folder / "images.npz", "--json")
    expected = json.loads(run(*arguments)[1])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    status, out, err = run(*arguments, "--trust")
    assert status == 0 and json.loads(out) == expected
    assert "compiled again" not in err
    status, out, err = run(*arguments)
    assert status == 0 and json.loads(out) == expected
    assert (
        "part 0 has machine code that was not compiled here; its ONNX model is compiled again"
        in err
    )


def test_damaged_code(run: Run, folder: Path, tmp_path: Path) -> None:
    source, images = folder / "digits.daedal", folder / "images.npz"
    flipped = edited(source, tmp_path / "flipped.daedal", ".x86-64")
    refuses(run("run", flipped, "-i", images), "must match its hash; it is damaged")
    sealed = edited(source, tmp_path / "sealed.daedal", ".x86-64", b"")
    for options in ((), ("--trust",)):
        result = run("run", sealed, "-i", images, *options)
        refuses(result, "must be a file that `daedal compile` wrote; it is damaged")


@pytest.mark.parametrize(
    "options",
    [
        *(("--device", "rtl"), ("-v", "tiny"), ("--check", DIGITS), ("--option", "a=b")),
        *(("--wave", "0:1"), ("--device", "functional")),
    ],
)
def test_a_device_is_refused(run: Run, folder: Path, options: tuple[object, ...]) -> None:
    result = run("run", folder / "digits.daedal", "-i", folder / "images.npz", *options)
    refuses(result, "is for processors alone, so a run must have no --device", "leave them out")


@pytest.mark.parametrize("command", [("profile", "--device", "timing"), ("trace",)])
def test_commands_of_an_accelerator(run: Run, folder: Path, command: tuple[str, ...]) -> None:
    result = run(*command, folder / "digits.daedal")
    refuses(result, "an artifact with a program for an accelerator", "--target VARIANT")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--target", "cpu", "-v", "vta"), "a target must be given once"),
        (("--target", "tpu"), "'tpu'"),
        (("--target", "cpu", "--from", "conv0_q"), "target 'cpu' takes whole models"),
        (("--target", "cpu", "--all-on-accelerator"), "target 'cpu' has none"),
        (("--target", "cpu", "--cpu-level", "x86"), "must be one of x86-64, x86-64-v3"),
    ],
)
def test_options_that_do_not_fit(
    run: Run, tmp_path: Path, options: tuple[str, ...], sentence: str
) -> None:
    refuses(run("compile", DIGITS, "-o", tmp_path / "x.daedal", *options), sentence)
    assert not list(tmp_path.iterdir())


def test_a_float_model_for_a_variant(run: Run, tmp_path: Path) -> None:
    result = run("compile", FLOAT, "--target", "tiny+cpu", "-o", tmp_path / "x.daedal")
    refuses(result, "must be quantized to int8", "`daedal quantize`", "--target cpu")


def test_a_variant_with_and_without_cpu(run: Run, tmp_path: Path) -> None:
    written = []
    for options in (("--target", "tiny"), ("--target", "tiny+cpu"), ("-v", "tiny")):
        target = tmp_path / "x.daedal"
        status, out, err = run("compile", DIGITS, "-o", target, *options)
        assert status == 0, err
        assert "2 parts on the host (0, 2): 3 nodes compiled for" in out
        written.append(target.read_bytes())
    assert written[0] == written[1] == written[2]
    kinds = [type(part) for part in Artifact.from_bytes(written[0]).parts]
    assert kinds == [HostPart, Launch, HostPart]


def test_the_python_interface(folder: Path) -> None:
    images, labels = demo_images(2)
    artifact = daedal.compile(FLOAT, target="cpu")
    result = daedal.simulate(artifact, {"input": images})
    assert result.outputs["probabilities"].argmax(axis=1).tolist() == labels.tolist()
    assert (result.profiles, result.layers, result.tensors) == ((), (), {})
    with pytest.raises(UserError, match="has nothing for a device to run"):
        daedal.simulate(artifact, {"input": images}, device="functional")
    with pytest.raises(UserError, match=r"a target must be given once, .*; none is given"):
        daedal.compile(FLOAT)
    with pytest.raises(VariantError):
        daedal.compile(FLOAT, "cpu")
    bare = daedal.compile(FLOAT, target="cpu", cpu_levels=())
    assert not bare.host_parts[0].codes
    found = daedal.simulate(bare, {"input": images}).outputs["probabilities"]
    np.testing.assert_allclose(found, result.outputs["probabilities"], atol=1e-6)
