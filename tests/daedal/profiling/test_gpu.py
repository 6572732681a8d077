"""Kernels of artifacts: what they move and compute, and how long they take on a fake GPU."""

import gc
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import daedal
from daedal.artifact.artifact import Artifact
from daedal.common.errors import UserError
from daedal.compiler.targets.gpu_peaks import GPU_PEAKS
from daedal.profiling.gpu import gpu_kernels, profile_gpu
from daedal.reports.gpu_kernels import kernels_json, kernels_note
from daedal.runtime.devices.cuda.device import CudaGpu
from daedal.runtime.devices.cuda.driver import Driver
from daedal.sim.gpu.emulator import EmulatedGpu
from tests.support.command_line import Run, refuses
from tests.support.fake_cuda import FakeCuda

ROWS, DEPTH, COLUMNS = 32, 48, 24
node = helper.make_node


def network(kind: int = TensorProto.FLOAT) -> bytes:
    """Two products of one structure, and a softmax."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    x = helper.make_tensor_value_info("x", kind, (ROWS, DEPTH))
    y = helper.make_tensor_value_info("y", kind, (ROWS, DEPTH))
    rng = np.random.default_rng(0)
    values = [
        numpy_helper.from_array((rng.normal(size=(DEPTH, DEPTH)) / 8).astype(dtype), name)
        for name in ("v", "w")
    ]
    nodes = [
        node("MatMul", ["x", "v"], ["a"]),
        node("MatMul", ["a", "w"], ["b"]),
        node("Softmax", ["b"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], values)
    opset = helper.make_opsetid("", 21)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    return bytes(model.SerializeToString())


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return Artifact.from_bytes(daedal.compile(network(), target="gpu").to_bytes())


def test_what_kernels_move_and_compute(artifact: Artifact) -> None:
    product, *others = gpu_kernels(artifact)
    assert (product.part, product.names, product.operators) == (0, ("a", "b"), ("MatMul",))
    assert product.launches == 2
    assert product.bytes_moved == 4 * (2 * ROWS * DEPTH + DEPTH * DEPTH)
    kernel = product.kernel
    assert (product.products, kernel.cores) == (ROWS * DEPTH * DEPTH, "")
    assert kernel.shared_bytes > 0 and kernel.local_bytes == 4 * 16  # 4x4 sums of a thread
    assert others and all(item.operators == ("Softmax",) for item in others)
    assert all(item.products == 0 and item.launches == 1 for item in others)
    assert [item.symbol for item in (x.kernel for x in (product, *others))] == list(
        dict.fromkeys(call.symbol for call in _host(artifact).calls)
    )


def _host(artifact: Artifact):
    code = artifact.host_parts[0].gpu
    assert code is not None
    return code.host


def test_tensor_cores_are_named() -> None:
    made = daedal.compile(network(TensorProto.FLOAT16), target="gpu:emulated")
    kernels = gpu_kernels(made)
    assert kernels[0].kernel.cores == "float16" and kernels[0].products
    assert {item.kernel.cores for item in kernels[1:]} == {""}


def test_an_emulator_gives_no_time(artifact: Artifact) -> None:
    found = profile_gpu(artifact, EmulatedGpu())
    assert found == gpu_kernels(artifact)
    assert {item.seconds for item in found} == {item.share_of_roof for item in found} == {None}
    assert "no time is known: the emulator has no clock" in kernels_note(found)


def test_kernels_are_timed_by_events(artifact: Artifact) -> None:
    """A launch takes a millisecond on the fake GPU, which is an H100; memory is given back."""
    code = artifact.host_parts[0].gpu
    assert code is not None
    emulated, ptx = (code.images[name] for name in sorted(code.images))
    library = FakeCuda(programs=dict(zip(ptx, emulated, strict=True)))
    device = CudaGpu(driver=Driver(library))
    found = profile_gpu(artifact, device)
    assert "cuEventElapsedTime" in library.calls
    np.testing.assert_allclose([item.seconds for item in found], 1e-3, rtol=1e-3)
    product, peaks = found[0], GPU_PEAKS["sm_90"]
    assert product.peaks == peaks and product.seconds is not None
    least = max(
        product.bytes_moved / peaks.bytes_per_second,
        product.products / peaks.products_per_second["float32"],
    )
    assert product.share_of_roof == least / product.seconds
    assert kernels_json(found)[0]["share_of_roof"] == product.share_of_roof
    assert kernels_note(found).endswith("the roof: of an H100 (SXM), by its data sheet")
    del device
    gc.collect()
    assert not library.held


def test_profiles_that_are_refused(artifact: Artifact) -> None:
    with pytest.raises(UserError, match="must have kernels, and this one has none"):
        profile_gpu(daedal.compile(network(), target="cpu"), "gpu-emulated")
    alone = daedal.compile(network(), target="gpu:emulated")
    with pytest.raises(UserError, match=r"timed must be for .*, and those of part 0 are for emul"):
        profile_gpu(alone, CudaGpu(driver=Driver(FakeCuda())))


@pytest.fixture
def path(artifact: Artifact, tmp_path: Path) -> Path:
    artifact.save(tmp_path / "x.daedal")
    return tmp_path / "x.daedal"


def test_inspect_lists_kernels(run: Run, path: Path) -> None:
    status, out, err = run("inspect", path)
    assert status == 0, err
    assert "Kernels, by their first launches" in out and "MatMul" in out
    assert "no time is known: the emulator has no clock, and no GPU was asked" in out
    status, out, err = run("inspect", path, "--json")
    first = json.loads(out)["kernels"][0]
    assert first["names"] == ["a", "b"] and first["seconds"] is None
    assert first["products"] == ROWS * DEPTH * DEPTH and first["tensor_cores"] is None


def test_profile_lists_kernels(run: Run, path: Path, tmp_path: Path) -> None:
    target = tmp_path / "profile.json"
    status, out, err = run("profile", path, "--device", "gpu-emulated", "-o", target)
    assert status == 0, err
    assert "no time is known" in out and "73,728" in out
    document = json.loads(target.read_text())
    assert document["gpu"] == "emulated GPU" and len(document["kernels"]) > 1
    options = ("--device", "gpu-emulated", "--option", "seed=1", "--json")
    status, out, err = run("profile", path, *options)
    assert status == 0 and json.loads(out) == document, err
    refuses(run("profile", path, "--device", "gpu-emulated", "--layer", "a"), "of an accelerator")


def test_the_model_is_the_one_of_the_names() -> None:
    """Names of kernels are those of the part's ONNX model."""
    (part,) = daedal.compile(network(), target="gpu:emulated").host_parts
    assert {x for n in onnx.ModelProto.FromString(part.model).graph.node for x in n.output} == {
        *"aby"
    }
