"""Tensors without elements on processors and GPUs: nothing computes them."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import daedal
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.gpu.build import build_gpu_code
from daedal.runtime.devices.cuda.device import CudaGpu
from daedal.runtime.gpu_program import GpuProgram
from daedal.runtime.host_code import HostProgram
from daedal.sim.gpu.emulator import EmulatedGpu
from tests.support.fake_cuda import FakeCuda

Case = tuple[list[onnx.NodeProto], dict[str, tuple[int, ...]], dict[str, np.ndarray], int]

EMPTY = np.zeros((0, 4), np.float32)
CASES: dict[str, Case] = {
    "a map": ([helper.make_node("Exp", ["x"], ["y"])], {"x": (0, 4)}, {"y": EMPTY}, 0),
    "no rows": (
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": (0, 3), "w": (3, 4)},
        {"y": EMPTY},
        0,
    ),
    "no terms": (
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": (2, 0), "w": (0, 3)},
        {"y": np.zeros((2, 3), np.float32)},
        0,
    ),
    "a sum": (
        [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)],
        {"x": (0, 4)},
        {"y": np.zeros((), np.float32)},
        0,
    ),
    "a part of a join": (
        [helper.make_node("Concat", ["e", "x"], ["y"], axis=0)],
        {"x": (1, 4), "e": (0, 4)},
        {"y": np.ones((1, 4), np.float32)},
        1,
    ),
    "beside others": (
        [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Relu", ["e"], ["z"])],
        {"x": (1, 1), "e": (0, 4)},
        {"y": np.ones((1, 1), np.float32), "z": EMPTY},
        1,
    ),
}
"""Nodes, inputs, which are 1, results, and launches."""


def model_of(case: Case) -> onnx.ModelProto:
    nodes, inputs, results, _ = case
    graph = helper.make_graph(
        nodes,
        "empty",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n, x in results.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_launched_for_them(name: str) -> None:
    """The results are those of ONNX."""
    _, inputs, wanted, launches = CASES[name]
    model = model_of(CASES[name])
    feeds = {key: np.ones(shape, np.float32) for key, shape in inputs.items()}
    host = build_host_code(model)
    code = build_gpu_code(model)
    assert not host.interpreted and not code.host.interpreted
    assert len(code.host.calls) == len(host.calls) == launches
    emulated, ptx = code.images.values()
    library = FakeCuda(programs=dict(zip(ptx, emulated, strict=True)))
    gpus = EmulatedGpu(), CudaGpu(driver=library.driver())
    for program in (HostProgram(host), *(GpuProgram(code, gpu) for gpu in gpus)):
        found = program.run(feeds)
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            np.testing.assert_array_equal(found[key], value, strict=True)


@pytest.mark.parametrize("target", ["cpu", "gpu:emulated"])
def test_a_file_holds_them(target: str, tmp_path: Path) -> None:
    given = np.zeros((1, 0, 4), np.float32)
    nodes = [helper.make_node("Exp", ["x"], ["y"])]
    path = tmp_path / "empty.daedal"
    daedal.compile(model_of((nodes, {"x": given.shape}, {"y": given}, 0)), target=target).save(path)
    device = None if target == "cpu" else "gpu-emulated"
    found = daedal.simulate(daedal.Artifact.load(path), {"x": given}, device=device)
    np.testing.assert_array_equal(found.outputs["y"], given, strict=True)
