"""Programs on a GPU: what they ask of the device, what they refuse, and which code runs."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from daedal.artifact.artifact import Artifact, Value
from daedal.artifact.gpu_code import GpuCode, ProcessorKernel
from daedal.artifact.gpu_code_file import gpu_digest, gpu_from_json, gpu_json, gpu_members
from daedal.artifact.host_code import HostCode, InterpretedNode
from daedal.artifact.parts import HostPart
from daedal.common.errors import ArtifactError, DeviceError, ModelError
from daedal.compiler.artifact.host_code import best_levels, compile_host_model
from daedal.compiler.cpu.build import build_host_code
from daedal.native.levels import host_level
from daedal.native.own_code import OwnCode
from daedal.runtime.executor import Executor
from daedal.runtime.gpu_program import GpuProgram, architecture_to_run, architectures_to_run
from daedal.runtime.host import HostModel
from daedal.runtime.host_code import HostProgram
from daedal.runtime.host_parts import CodeTrust, CompiledPart, load_host_part
from tests.support.gpu_code import FakeGpu, as_gpu_code
from tests.support.host_models import SHAPE, one_model, small_floats

X = np.array([[1, -2, 3], [0.5, 0, 1]], np.float32)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was compiled before a test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def host_code(model: bytes) -> HostCode:
    return build_host_code(onnx.ModelProto.FromString(model))


@pytest.fixture
def code() -> GpuCode:
    return as_gpu_code(host_code(small_floats()))


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Sequence[int]],
    outputs: dict[str, Sequence[int] | None],
) -> bytes:
    values = [
        helper.make_tensor_value_info(
            name, TensorProto.INT64 if len(name) > 1 else TensorProto.FLOAT, shape
        )
        for name, shape in inputs.items()
    ]
    results = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in outputs.items()
    ]
    graph = helper.make_graph(list(nodes), "small", values, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    return bytes(model.SerializeToString())


def test_steps_run_in_order_on_one_block_of_memory(code: GpuCode) -> None:
    device = FakeGpu()
    program = GpuProgram(code, device)
    assert list(device.held.values()) == [code.host.memory_bytes]
    expected = HostModel(small_floats(), "the model").run({"x": X})
    for _ in range(2):
        np.testing.assert_allclose(program.run({"x": X})["y"], expected["y"], rtol=1e-6)
    assert device.launched == 2 * [call.symbol for call in code.host.calls]
    assert program.run({"x": X.astype(np.int64)})["y"].dtype == np.float32
    assert len(device.held) == 1
    del program
    gc.collect()
    assert not device.held


class GraphGpu(FakeGpu):
    """A device with graphs: lists of symbols and what launches them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.replayed: list[int] = []
        self.captured: list[tuple[Any, ...]] | None = None

    def launch(self, *given: Any) -> None:
        if self.captured is None:
            super().launch(*given)
        else:
            self.captured.append(given)

    def capture(self, work: Callable[[], None]) -> list[tuple[Any, ...]]:
        self.captured = found = []
        work()
        self.captured = None
        return found

    def replay(self, graph: list[tuple[Any, ...]]) -> None:
        self.replayed.append(len(graph))
        for given in graph:
            super().launch(*given)


def test_launches_that_follow_each_other_are_a_graph() -> None:
    """An interpreted node ends one; a launch alone needs none."""
    node = helper.make_node
    nodes = [
        node("Softmax", ["x"], ["a"]),
        node("Bernoulli", ["z"], ["b"]),
        node("Add", ["a", "b"], ["y"]),
    ]
    zeros = onnx.numpy_helper.from_array(np.zeros(SHAPE, np.float32), "z")
    model = one_model(nodes, [zeros])
    code = as_gpu_code(host_code(model))
    kinds = [isinstance(step, InterpretedNode) for step in code.host.steps]
    assert True in kinds[1:-1], "the interpreted node is between kernels"
    graphs, plain = GraphGpu(), FakeGpu()
    program, other = GpuProgram(code, graphs), GpuProgram(code, plain)
    assert graphs.launched == []
    for _ in range(2):
        np.testing.assert_array_equal(program.run({"x": X})["y"], other.run({"x": X})["y"])
    assert graphs.launched == plain.launched
    sizes = [len(list(group)) for is_node, group in groupby(kinds) if not is_node]
    assert graphs.replayed == 2 * [size for size in sizes if size > 1] != []


def test_results_may_be_changed(code: GpuCode) -> None:
    result = GpuProgram(code, FakeGpu()).run({"x": X})["y"]
    result += 1


@pytest.mark.parametrize("on_gpu", [False, True])
def test_inputs_that_do_not_fit_have_the_same_sentence_as_on_a_processor(
    code: GpuCode, on_gpu: bool
) -> None:
    program = GpuProgram(code, FakeGpu()) if on_gpu else HostProgram(host_code(small_floats()))
    for values, sentence in (
        ({}, r"^a run must give the model's input 'x' of shape \(2, 3\); it got nothing$"),
        ({"x": X[:1]}, r"^input 'x' must have shape \(2, 3\), not \(1, 3\)$"),
        ({"x": X + 1j}, "^input 'x' must be float32, not complex64; convert the array$"),
    ):
        with pytest.raises(ModelError, match=sentence):
            program.run(values)


def test_code_for_another_gpu_is_refused(code: GpuCode) -> None:
    with pytest.raises(ArtifactError) as error:
        GpuProgram(replace(code, images={"sm_80": code.images["sm_80"]}), FakeGpu())
    assert str(error.value) == (
        "an artifact must hold code for fake, and it has that of sm_80; compile the model here"
    )


def test_tensors_are_joined() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Concat", ["a", *9 * ["y"], "x"], ["z"], axis=1),
    ]
    model = model_of(nodes, {"x": (2, 3), "y": (2, 1)}, {"z": (2, 15)})
    code = as_gpu_code(host_code(model))
    y = np.array([[7], [8]], np.float32)
    found = GpuProgram(code, FakeGpu()).run({"x": X, "y": y})["z"]
    np.testing.assert_array_equal(found, np.concatenate([np.maximum(X, 0), *9 * [y], X], 1))


def test_tensors_without_a_static_shape_stay_on_the_host() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Slice", ["a", "first", "end"], ["y"]),
    ]
    inputs = {"x": (2, 3), "first": (1,), "end": (1,)}
    code = as_gpu_code(host_code(model_of(nodes, inputs, {"y": None})))
    program = GpuProgram(code, FakeGpu())
    for first, end in ((0, 1), (1, 2), (0, 2)):
        found = program.run({"x": X, "first": np.array([first]), "end": np.array([end])})["y"]
        np.testing.assert_array_equal(found, np.maximum(X, 0)[first:end])


def test_tensors_without_elements() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    code = as_gpu_code(host_code(model_of(nodes, {"x": (0, 3)}, {"y": (0, 3)})))
    found = GpuProgram(code, FakeGpu()).run({"x": np.zeros((0, 3), np.float32)})["y"]
    assert found.shape == (0, 3)


def test_an_interpreted_node_gives_the_shape_of_its_buffer(code: GpuCode) -> None:
    (old,) = code.host.interpreted
    model = onnx.ModelProto.FromString(old.model)
    model.graph.node[0].op_type = "Shape"
    model.graph.node[0].ClearField("attribute")
    new = InterpretedNode(model.SerializeToString(), "Shape", "")
    steps = tuple(new if step is old else step for step in code.host.steps)
    program = GpuProgram(replace(code, host=replace(code.host, steps=steps)), FakeGpu())
    with pytest.raises(ModelError, match=r"ONNX infers, \(2, 3\), and Shape gives \(2,\) for 'b'"):
        program.run({"x": X})


def test_what_a_device_raises_is_passed_on(code: GpuCode, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: FakeGpu, size_bytes: int) -> int:
        raise DeviceError(f"{size_bytes} bytes must be free")

    monkeypatch.setattr(FakeGpu, "allocate", full)
    with pytest.raises(DeviceError, match=f"^{code.host.memory_bytes} bytes must be free$"):
        GpuProgram(code, FakeGpu())


@pytest.mark.parametrize(
    ("device", "images", "expected"),
    [
        (("sm_80",), ("sm_80",), ("sm_80",)),
        (("sm_80",), ("sm_80", "sm_80.cubin"), ("sm_80.cubin", "sm_80")),
        (("sm_86", "sm_80"), ("sm_80", "sm_80.cubin"), ("sm_80.cubin", "sm_80")),
        (("sm_90a", "sm_90", "sm_80"), ("sm_80", "sm_80.cubin"), ("sm_80",)),
        (("sm_90a", "sm_90"), ("sm_90a.cubin", "sm_90.cubin", "sm_90"), ("sm_90a.cubin",)),
        (("sm_90a", "sm_90"), ("sm_90", "sm_90.cubin"), ("sm_90.cubin", "sm_90")),
        (("sm_120a", "sm_120", "sm_90"), ("sm_90", "sm_90.cubin"), ("sm_90",)),
        (("sm_103a", "sm_103", "sm_100"), ("sm_100.cubin",), ("sm_100.cubin",)),
        (("sm_80",), ("sm_90", "sm_90.cubin"), ()),
        (("emulated-x86-64",), ("sm_80.cubin", "emulated-x86-64"), ("emulated-x86-64",)),
    ],
)
def test_cubins_of_the_same_generation_come_first(
    code: GpuCode, device: tuple[str, ...], images: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    found = replace(code, images=dict.fromkeys(images, (b"",)))
    gpu = FakeGpu(architectures=device)
    assert architectures_to_run(found, gpu) == expected
    assert architecture_to_run(found, gpu) == (expected[0] if expected else None)


def test_a_driver_that_refuses_a_cubin_gets_the_ptx(
    code: GpuCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is older than the assembler may."""
    tried: list[tuple[bytes, ...]] = []
    load = FakeGpu.load

    def loaded(device: FakeGpu, images: Sequence[bytes], symbols: Sequence[str]) -> Any:
        tried.append(tuple(images))
        if images == (b"cubin",):
            raise DeviceError("it is too new")
        return load(device, images, symbols)

    monkeypatch.setattr(FakeGpu, "load", loaded)
    files = code.images[f"emulated-{host_level()}"]
    both = replace(code, images={"sm_80": files, "sm_80.cubin": (b"cubin",)})
    program = GpuProgram(both, FakeGpu(architectures=("sm_80",)))
    assert tried == [(b"cubin",), files] and program.run({"x": X})["y"].shape == SHAPE
    alone = replace(code, images={"sm_80.cubin": (b"cubin",)})
    with pytest.raises(DeviceError, match="it is too new"):
        GpuProgram(alone, FakeGpu(architectures=("sm_80",)))


def test_a_cubin_from_a_file_is_trusted_as_other_code(code: GpuCode) -> None:
    """And so is the PTX that a driver may get instead."""
    names = b"\0".join(kernel.symbol.encode() for kernel in code.kernels)
    cubin = b"\x7fELF\x02\x01" + bytes(12) + b"\xbe\x00" + bytes(44) + names
    both = replace(code, images={"sm_80": code.images["sm_80"], "sm_80.cubin": (cubin,)})
    part = HostPart(small_floats(), (), (), gpu_from_json(gpu_json(both), gpu_members(both)))
    gpu = FakeGpu(architectures=("sm_80",))
    for name in ("sm_80", "sm_80.cubin"):
        with pytest.raises(ArtifactError, match="was not compiled here"):
            load_host_part(part, "part 0", CodeTrust(), gpu)
        OwnCode().add(gpu_digest(small_floats(), both, name))
    with pytest.raises(RuntimeError):  # the fake GPU links neither of these
        load_host_part(part, "part 0", CodeTrust(), gpu)


# Which code of a part runs.


def part_of(code: GpuCode, *, is_known: bool) -> HostPart:
    """A part from a file, which was compiled here or elsewhere."""
    if is_known:
        for architecture in code.images:
            OwnCode().add(gpu_digest(small_floats(), code, architecture))
    return HostPart(small_floats(), (), (), gpu_from_json(gpu_json(code), gpu_members(code)))


def test_code_from_a_file_runs_where_it_was_compiled(code: GpuCode) -> None:
    device = FakeGpu()
    found = load_host_part(part_of(code, is_known=True), "part 0", CodeTrust(), device)
    assert isinstance(found, CompiledPart) and isinstance(found.program, GpuProgram)
    assert found.run({"x": X})["y"].shape == SHAPE and device.launched
    assert found.zeros()["x"].shape == SHAPE


def test_other_code_is_refused_without_a_compiler(code: GpuCode) -> None:
    part = part_of(code, is_known=False)
    with pytest.raises(ArtifactError) as error:
        load_host_part(part, "part 0", CodeTrust(), FakeGpu())
    assert str(error.value) == (
        "machine code from a file must be made on this machine, and part 0 has machine code that "
        "was not compiled here; compile the model here, or run it with `daedal run --trust`"
    )
    trusted = load_host_part(part, "part 0", CodeTrust(trust_file=True), FakeGpu())
    assert isinstance(trusted, CompiledPart) and isinstance(trusted.program, GpuProgram)


def test_changed_code_is_not_what_was_compiled(code: GpuCode) -> None:
    part = part_of(code, is_known=True)
    assert part.gpu is not None
    first, *others = part.gpu.kernels
    for changed in (
        replace(part, model=part.model + b"\x22\x00"),
        replace(part, gpu=replace(part.gpu, kernels=(replace(first, grid=(9, 1, 1)), *others))),
        replace(part, gpu=replace(part.gpu, host=replace(part.gpu.host, memory_bytes=1 << 20))),
    ):
        with pytest.raises(ArtifactError, match="was not compiled here"):
            load_host_part(changed, "part 0", CodeTrust(), FakeGpu())


@pytest.mark.parametrize("is_made", [True, False])
def test_other_code_is_compiled_again(code: GpuCode, is_made: bool) -> None:
    """For the GPU with the same precision, or where that cannot be for the processor."""
    said: list[str] = []
    asked: list[tuple[tuple[str, ...], str]] = []
    code = replace(code, precision="float16")

    def again(model: bytes, architectures: tuple[str, ...], precision: str) -> GpuCode | None:
        assert model == small_floats()
        asked.append((architectures, precision))
        return code if is_made else None

    def processor(model: bytes) -> Sequence[HostCode]:
        return compile_host_model(model, best_levels())

    device = FakeGpu()
    trust = CodeTrust(False, processor, said.append, again)
    found = load_host_part(part_of(code, is_known=False), "part 0", trust, device)
    assert isinstance(found, CompiledPart) and asked == [(device.architectures, "float16")]
    assert isinstance(found.program, GpuProgram if is_made else HostProgram)
    problem = "part 0 has machine code that was not compiled here; its ONNX model is compiled again"
    assert said[0] == problem
    assert said[1:] == (
        []
        if is_made
        else ["part 0 has code for GPUs alone, and none is used; its ONNX model is compiled again"]
    )


def test_code_for_another_architecture_is_compiled_again(code: GpuCode) -> None:
    part = HostPart(small_floats(), (), (), code)
    with pytest.raises(ArtifactError, match=r"part 0 has code for .*, sm_80, not for fake; comp"):
        load_host_part(part, "part 0", CodeTrust(), FakeGpu(architectures=("sm_90",)))


def test_without_a_gpu_the_processor_runs_the_model(code: GpuCode) -> None:
    part = HostPart(small_floats(), (), (), code)
    said: list[str] = []
    trust = CodeTrust(False, lambda model: compile_host_model(model, best_levels()), said.append)
    found = load_host_part(part, "part 0", trust)
    assert isinstance(found, CompiledPart) and isinstance(found.program, HostProgram)
    assert said == [
        "part 0 has code for GPUs alone, and none is used; its ONNX model is compiled again"
    ]
    both = replace(part, codes=(host_code(small_floats()),))
    found = load_host_part(both, "part 0")
    assert isinstance(found, CompiledPart) and isinstance(found.program, HostProgram)
    with pytest.raises(ArtifactError, match="and part 0 has code for GPUs alone, and none is used"):
        load_host_part(part, "part 0")


def test_a_damaged_model_is_refused_before_it_is_compiled(code: GpuCode) -> None:
    part = replace(part_of(code, is_known=False), model=b"\xff")
    with pytest.raises(ArtifactError, match="must be a valid ONNX model"):
        load_host_part(part, "part 0", CodeTrust(compile_gpu=lambda *_: pytest.fail()), FakeGpu())


def test_functions_of_the_processor_between_kernels(code: GpuCode) -> None:
    """Their operands come from the device's memory; those of another processor do not run."""
    host = host_code(small_floats())
    first, *others = code.kernels
    left = (ProcessorKernel(first.symbol, "it has no code"),)
    mixed = GpuCode(replace(code.host, objects=host.objects), tuple(others), code.images, left)
    device = FakeGpu()
    expected = HostModel(small_floats(), "the model").run({"x": X})["y"]
    np.testing.assert_allclose(GpuProgram(mixed, device).run({"x": X})["y"], expected, rtol=1e-6)
    assert first.symbol not in device.launched
    objects = {
        "aarch64": build_host_code(
            onnx.ModelProto.FromString(small_floats()), levels=["aarch64"]
        ).objects["aarch64"]
    }
    elsewhere = replace(mixed, host=replace(mixed.host, objects=objects))
    part = HostPart(small_floats(), (), (), elsewhere)
    with pytest.raises(ArtifactError, match="part 0 has functions for aarch64, not for this proc"):
        load_host_part(part, "part 0", CodeTrust(), device)


def test_an_executor_runs_parts_on_its_gpu(code: GpuCode) -> None:
    part = HostPart(small_floats(), (), (), code)
    artifact = Artifact((part,), (Value("x", SHAPE),), (Value("y", SHAPE),))
    device = FakeGpu()
    found = Executor(artifact, None, gpu=device).run({"x": X}).outputs
    np.testing.assert_allclose(
        found["y"], HostModel(small_floats(), "the model").run({"x": X})["y"], rtol=1e-6
    )
    assert device.launched
