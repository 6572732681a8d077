"""Kernels that GPUs have no code for: the processor runs them, and says why."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import daedal
from daedal.artifact.gpu_code import GpuCode
from daedal.artifact.gpu_code_file import gpu_digest, gpu_from_json, gpu_json, gpu_members
from daedal.artifact.host_code import Join
from daedal.artifact.object_file import read_symbols
from daedal.checking.onnxruntime_session import open_session
from daedal.common.errors import UnsupportedError
from daedal.compiler.artifact import gpu_code
from daedal.compiler.artifact.gpu_code import compile_gpu_model
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.gpu import functions
from daedal.compiler.gpu.build import build_gpu_code
from daedal.compiler.ops.gpu.kernel import gpu_kernel_function
from daedal.compiler.ops.space import Config
from daedal.compiler.tir.stmt import PrimFunc
from daedal.native.cache import NoCache
from daedal.native.levels import host_level
from daedal.runtime.gpu_program import GpuProgram
from daedal.sim.gpu.emulator import EmulatedGpu
from tests.support.planted import LACKING, plant_no_square_roots

SHAPE = (4, 6)
BOTH = ("emulated", "sm_80")
node = helper.make_node


def model_of(nodes: Sequence[onnx.NodeProto], columns: int = 6) -> onnx.ModelProto:
    """From x to y, with weights w."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)
    weights = np.random.default_rng(0).normal(size=(6, 6)).astype(np.float32)
    values = [numpy_helper.from_array(weights, "w")]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (4, columns))
    graph = helper.make_graph(nodes, "small", [x], [y], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def roots() -> onnx.ModelProto:
    """Two products with a square root each, which have one function, between other kernels."""
    return model_of(
        [
            node("Softmax", ["x"], ["s"]),
            node("MatMul", ["s", "w"], ["a"]),
            node("Abs", ["a"], ["b"]),
            node("Sqrt", ["b"], ["c"]),
            node("MatMul", ["c", "w"], ["d"]),
            node("Abs", ["d"], ["e"]),
            node("Sqrt", ["e"], ["f"]),
            node("Softmax", ["f"], ["y"]),
        ]
    )


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch) -> GpuCode:
    plant_no_square_roots(monkeypatch)
    return build_gpu_code(roots(), architectures=BOTH)


def test_the_processor_runs_them_between_kernels(code: GpuCode) -> None:
    model = roots()
    (left,) = code.on_processor
    assert left.reason == LACKING
    called = [call.computes for call in code.host.calls if call.symbol == left.symbol]
    assert called == [("c",), ("f",)]
    known = {kernel.symbol for kernel in code.kernels}
    where = [call.symbol in known for call in code.host.calls]
    assert where.count(False) == 2 and where[0] and where[-1]
    (function,) = code.host.objects[host_level()]
    assert read_symbols(function).defined == {left.symbol}
    x = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    program = GpuProgram(code, EmulatedGpu(races=True, seed=0))
    (expected,) = open_session(model)({"x": x})
    for _ in range(2):
        np.testing.assert_allclose(program.run({"x": x})["y"], expected, rtol=1e-5, atol=1e-6)


def test_a_file_holds_them_and_their_code_counts(code: GpuCode) -> None:
    read = gpu_from_json(gpu_json(code), gpu_members(code))
    assert read == code
    (level,) = code.host.objects
    for changed in (
        replace(code, host=replace(code.host, objects={level: (bytes(8),)})),
        replace(code, on_processor=()),
    ):
        assert gpu_digest(b"", changed, "sm_80") != gpu_digest(b"", code, "sm_80")


def test_without_the_architecture_all_are_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_no_square_roots(monkeypatch)
    code = build_gpu_code(roots(), architectures=["emulated"])
    assert not code.on_processor and not code.host.objects


def test_the_processor_joins_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where GPUs have no code for the copies."""

    def refusing(
        kernel: Kernel, *, has_warps: bool, has_groups: bool, config: Config | None
    ) -> PrimFunc:
        if kernel.frame is not None:
            raise UnsupportedError("no copies")
        return gpu_kernel_function(
            kernel, has_warps=has_warps, has_groups=has_groups, config=config
        )

    monkeypatch.setattr(functions, "gpu_kernel_function", refusing)
    model = model_of(
        [node("Relu", ["x"], ["a"]), node("Concat", ["x", "a"] * 5, ["y"], axis=1)], 60
    )
    code = build_gpu_code(model, architectures=["emulated"], cache=NoCache())
    assert [type(step) for step in code.host.steps][-1] is Join and not code.on_processor
    x = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    (expected,) = open_session(model)({"x": x})
    np.testing.assert_array_equal(GpuProgram(code, EmulatedGpu()).run({"x": x})["y"], expected)


def only_a_root() -> onnx.ModelProto:
    return model_of([node("Sqrt", ["x"], ["y"])])


def test_a_model_without_any_kernel_is_for_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_no_square_roots(monkeypatch)
    with pytest.raises(UnsupportedError) as error:
        build_gpu_code(only_a_root(), architectures=BOTH)
    assert str(error.value) == LACKING
    said: list[str] = []
    serialized = only_a_root().SerializeToString()
    artifact = daedal.compile(serialized, target="gpu", report=said.append)
    (part,) = artifact.host_parts
    (code,) = part.codes
    assert part.gpu is None and not code.interpreted
    (placement,) = artifact.placements
    sentence = f"GPUs have no code for any kernel of the model: {LACKING}"
    assert (placement.where, placement.why) == ("host", sentence)
    assert said[-1] == f"the model stays with the processor: {LACKING}"


def test_levels_that_lack_a_function_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for parts of the host; without any, the part is for processors."""
    plant_no_square_roots(monkeypatch)
    serialized = roots().SerializeToString()
    levels = (host_level(), "x86-64")
    code = compile_gpu_model(serialized, BOTH, levels=levels)
    assert tuple(code.host.objects) == tuple(dict.fromkeys(levels))
    monkeypatch.setattr(gpu_code, "linked", lambda _objects: {})
    with pytest.raises(UnsupportedError) as error:
        compile_gpu_model(serialized, BOTH, levels=levels)
    assert str(error.value) == LACKING
