"""Models as kernels: which there are, what they are called with, and what is refused."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import daedal
from daedal.artifact.gpu_code_file import gpu_from_json, gpu_json, gpu_members
from daedal.artifact.host_code import CodeCall, InterpretedNode
from daedal.artifact.object_file import read_symbols
from daedal.artifact.spirv_file import entry_points
from daedal.common.errors import (
    ModelError,
    ScheduleError,
    ToolError,
    UnsupportedError,
    UserError,
)
from daedal.compiler.codegen.gpu.ptxas import find_ptxas
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.cpu.workload import kernel_workload
from daedal.compiler.gpu.architectures import best_architecture, gpu_architectures
from daedal.compiler.gpu.build import build_gpu_code
from daedal.compiler.gpu.functions import GpuFunctions
from daedal.compiler.ops.gpu.kernel import gpu_kernel_function
from daedal.compiler.ops.space import Config
from daedal.compiler.tir.stmt import PrimFunc
from daedal.native.cache import NoCache, ObjectCache
from daedal.native.levels import host_level
from tests.support.gpu_formulas import product
from tests.support.host_models import small_floats

EMULATED = f"emulated-{host_level()}"
SHAPE = (4, 6)

needs_ptxas = pytest.mark.skipif(
    find_ptxas() is None, reason="ptxas is not installed (pip install 'daedal[gpu]')"
)


def model(nodes: list[onnx.NodeProto], **constants: np.ndarray) -> onnx.ModelProto:
    """From x to y."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in "xy")
    y.type.tensor_type.ClearField("shape")
    values = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "small", [x], [y], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_a_model_becomes_kernels_that_a_file_can_hold() -> None:
    code = build_gpu_code(onnx.ModelProto.FromString(small_floats()))
    assert gpu_from_json(gpu_json(code), gpu_members(code)) == code
    kinds = [type(step) for step in code.host.steps]
    assert kinds == [InterpretedNode, CodeCall] and code.host.objects == {}
    (kernel,) = code.kernels
    assert kernel.grid == (1, 1, 1) and kernel.block[0] >= 6
    (call,) = code.host.calls
    assert call.symbol == kernel.symbol and len(call.buffers) == 4  # x, w, b, y
    (image,) = code.images[EMULATED]
    assert read_symbols(image).defined == {kernel.symbol}


def test_kernels_of_equal_structure_are_one() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["a", "v"], ["y"]),
    ]
    weights = {name: np.eye(6, dtype=np.float32) * 2 for name in "wv"}
    code = build_gpu_code(model(nodes, **weights))
    assert len(code.kernels) == len(code.images[EMULATED]) == 1
    first, second = code.host.calls
    assert first.symbol == second.symbol and first.buffers != second.buffers


def test_a_kernel_joins_each_tensor() -> None:
    names = ["x", "a"] * 5
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Concat", names, ["y"], axis=1),
    ]
    code = build_gpu_code(model(nodes))
    assert all(isinstance(step, CodeCall) for step in code.host.steps)
    assert len(code.host.calls) == 1 + len(names)
    result = code.host.names["y"]
    assert code.host.buffers[result].shape == (4, 60)
    assert [call.buffers[-1] for call in code.host.calls[1:]] == [result] * len(names)


def test_maps_with_pads_need_no_border() -> None:
    """A kernel of its own for the pads would be a launch more."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Pad", ["a", "pads"], ["b"]),
        helper.make_node("Softmax", ["b"], ["y"]),
    ]
    code = build_gpu_code(model(nodes, pads=np.array([1, 1, 1, 1])))
    results = [call.buffers[-1] for call in code.host.calls]
    assert len(set(results)) == len(results)


@pytest.mark.heavy(3)
def test_a_convolution_of_many_blocks_and_steps_is_a_kernel() -> None:
    """Its copies have more iterations than may be listed (ResNet-50's first 3x3 with stride 2)."""
    weights = numpy_helper.from_array(np.zeros((128, 256, 3, 3), np.float32), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 256, 56, 56))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 128, 28, 28))
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4, strides=[2, 2])
    graph = helper.make_graph([node], "strided", [x], [y], [weights])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    code = build_gpu_code(made, architectures=["sm_80"], cache=NoCache())
    assert code.kernels and not code.on_processor


def test_spirv_is_made_where_it_is_asked_for() -> None:
    made = onnx.ModelProto.FromString(small_floats())
    code = build_gpu_code(made, architectures=["spirv"])
    (kernel,), (module,) = code.kernels, code.images["spirv"]
    assert set(code.images) == {"spirv"} and entry_points(module) == {kernel.symbol}
    assert gpu_from_json(gpu_json(code), gpu_members(code)) == code
    assert "spirv" not in gpu_architectures()


@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("others", [(), ("spirv",)])
def test_modules_of_opencl_have_no_tensor_cores(others: tuple[str, ...], is_constant: bool) -> None:
    """Kernels are the same for all architectures, so none has them where one of these is OpenCL.

    Constants are read as float16, however few they are.
    """
    x, w, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape)
        for name, shape in (("x", (32, 48)), ("w", (48, 24)), ("y", (32, 24)))
    )
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x, w], [y])
    if is_constant:
        graph.initializer.append(numpy_helper.from_array(np.ones((48, 24), np.float16), "w"))
        del graph.input[1]
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    code = build_gpu_code(made, architectures=["sm_80", *others])
    (ptx,) = code.images["sm_80"]
    assert (b"mma.sync" in ptx) == (not others)


@needs_ptxas
def test_cubins_are_made_beside_ptx() -> None:
    """Where an architecture is asked for; the cache keeps them."""
    made = onnx.ModelProto.FromString(small_floats())
    code = build_gpu_code(made, architectures=["emulated", "sm_80", "sm_90a"], cubins=True)
    assert set(code.images) == {EMULATED, "sm_80", "sm_90a", "sm_80.cubin", "sm_90a.cubin"}
    (cubin,), (kernel,) = code.images["sm_80.cubin"], code.kernels
    assert cubin.startswith(b"\x7fELF") and kernel.symbol.encode() in cubin
    assert gpu_from_json(gpu_json(code), gpu_members(code)) == code
    asked = daedal.compile(small_floats(), target="gpu:sm_80").host_parts[0].gpu
    usual = daedal.compile(small_floats(), target="gpu").host_parts[0].gpu
    assert asked is not None and asked.images["sm_80.cubin"] == (cubin,)
    assert usual is not None and set(usual.images) == {EMULATED, "sm_80"}


def test_an_assembler_that_refuses_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_ptx: str, architecture: str) -> object:
        raise ToolError(f"too old for {architecture}")

    monkeypatch.setattr("daedal.compiler.gpu.build.find_ptxas", lambda: Path("ptxas"))
    monkeypatch.setattr("daedal.compiler.gpu.images.ptxas_version", lambda: "0")
    monkeypatch.setattr("daedal.compiler.gpu.images.assembled", refused)
    said: list[str] = []
    made = onnx.ModelProto.FromString(small_floats())
    cache = NoCache()
    given = {"architectures": ["sm_80"], "cubins": True, "report": said.append, "cache": cache}
    assert set(build_gpu_code(made, **given).images) == {"sm_80"}
    assert said == ["there is no machine code for sm_80, only PTX: too old for sm_80"]
    monkeypatch.setattr("daedal.compiler.gpu.build.find_ptxas", lambda: None)
    assert set(build_gpu_code(made, **given).images) == {"sm_80"} and len(said) == 1


def test_the_checked_form_has_no_spirv() -> None:
    made = onnx.ModelProto.FromString(small_floats())
    with pytest.raises(UnsupportedError, match="leave out this architecture"):
        build_gpu_code(made, architectures=["spirv"], checked=True)


def test_the_checked_form_announces_accesses() -> None:
    code = build_gpu_code(onnx.ModelProto.FromString(small_floats()), checked=True)
    (image,) = code.images[EMULATED]
    assert {"gpu.read", "gpu.write"} <= read_symbols(image).undefined
    plain = build_gpu_code(onnx.ModelProto.FromString(small_floats()))
    assert code.kernels != plain.kernels


def test_images_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ObjectCache(tmp_path)
    made = onnx.ModelProto.FromString(small_floats())
    first = build_gpu_code(made, cache=cache)
    monkeypatch.setattr("daedal.compiler.gpu.images.compile_text", lambda *_: pytest.fail())
    assert build_gpu_code(made, cache=cache) == first


def test_kernels_are_scheduled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For all models, until something else is asked for or the compiler changes."""
    cache = ObjectCache(tmp_path)
    weights = np.ones((6, 6), np.float32)
    made = model([helper.make_node("MatMul", ["x", "w"], ["y"])], w=weights)
    other = model([helper.make_node("MatMul", ["x", "w"], ["y"])], w=2 * weights)
    first = build_gpu_code(made, architectures=["sm_80"], cache=cache)
    scheduled = []

    def fails(kernel: Kernel, **_: object) -> PrimFunc:
        scheduled.append(kernel)
        raise UnsupportedError("nothing is scheduled")

    monkeypatch.setattr("daedal.compiler.gpu.functions.gpu_kernel_function", fails)
    assert build_gpu_code(made, architectures=["sm_80"], cache=cache) == first
    again = build_gpu_code(other, architectures=["sm_80"], cache=cache)
    assert (again.kernels, again.images) == (first.kernels, first.images)
    assert not scheduled
    for architecture, checked in (("sm_90a", False), ("sm_80", True)):
        with pytest.raises(UnsupportedError, match="nothing is scheduled"):
            build_gpu_code(made, architectures=[architecture], cache=cache, checked=checked)
    for name, value in (("compiler_version", "other"), ("sources_have_changed", True)):
        monkeypatch.setattr(f"daedal.compiler.gpu.kept_texts.{name}", lambda value=value: value)
        with pytest.raises(UnsupportedError, match="nothing is scheduled"):
            build_gpu_code(made, architectures=["sm_80"], cache=cache)


@pytest.mark.parametrize("kind", [ScheduleError, UnsupportedError])
def test_refused_kernels_are_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[UserError]
) -> None:
    """The reason stays; another kernel is tried."""
    cache, tried = ObjectCache(tmp_path), list[Kernel]()

    def refuses(kernel: Kernel, **_: object) -> PrimFunc:
        tried.append(kernel)
        raise kind("such kernels have no code")

    monkeypatch.setattr("daedal.compiler.gpu.functions.gpu_kernel_function", refuses)
    for made in (small_floats(), small_floats(), model([helper.make_node("Neg", ["x"], ["y"])])):
        given = onnx.ModelProto.FromString(made) if isinstance(made, bytes) else made
        with pytest.raises(UserError, match="such kernels have no code"):
            build_gpu_code(given, architectures=["sm_80"], cache=cache)
    assert len(tried) == 2


@pytest.mark.heavy(2)
def test_kept_kernels_have_their_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of boxes that groups of warps copy; a schedule of the tuner is another text."""
    cache, scheduled = ObjectCache(tmp_path), list[Config | None]()

    def counted(kernel: Kernel, *, config: Config | None, **options: bool) -> PrimFunc:
        scheduled.append(config)
        return gpu_kernel_function(kernel, config=config, **options)

    monkeypatch.setattr("daedal.compiler.gpu.functions.gpu_kernel_function", counted)
    kernel = product(40, 72, 136, "float16")
    config = Config.of(rows=64, columns=64, depth=64, stages=2, groups=1)
    for configs in ({}, {kernel_workload(kernel, ()).key: config}):
        first, again = (
            GpuFunctions(["sm_90a"], checked=False, configs=configs, cache=cache) for _ in range(2)
        )
        assert first.of(kernel) == again.of(kernel)
        assert (first.texts, first.kernels) == (again.texts, again.kernels)
    assert again.texts[0].maps
    assert scheduled == [None, config]


def test_architectures() -> None:
    assert EMULATED in gpu_architectures()
    assert gpu_architectures(["emulated", EMULATED]) == (EMULATED,)
    for name in ("sm_20", "", "emulated-x"):
        with pytest.raises(UserError) as error:
            gpu_architectures([name])
        known = "an architecture of a GPU must be one of emulated"
        assert str(error.value).startswith(known) and str(error.value).endswith(f", not {name!r}")


def test_the_best_architecture_of_a_device() -> None:
    assert best_architecture(("sm_120a", "sm_120", "sm_90", "sm_80")) == "sm_90"
    assert best_architecture(("emulated-none", EMULATED)) == EMULATED
    assert best_architecture(("sm_75",)) is None


def test_formulas_that_nest_too_deeply(monkeypatch: pytest.MonkeyPatch) -> None:
    def deep(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(GpuFunctions, "of", deep)
    with pytest.raises(ModelError, match="must not nest too deeply"):
        build_gpu_code(onnx.ModelProto.FromString(small_floats()))


@pytest.mark.parametrize(("name", "is_compiled"), [("Sqrt", True), ("Exp", False)])
def test_functions_of_float64_are_interpreted(name: str, is_compiled: bool) -> None:
    """GPUs compute few."""
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=TensorProto.DOUBLE),
        helper.make_node(name, ["a"], ["y"]),
    ]
    made = model(nodes)
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    reasons = [item.reason for item in build_gpu_code(made).host.interpreted]
    sentence = "functions of float64 on a GPU must be abs, ceil, .*, not 'exp'; it is interpreted"
    assert len(reasons) == (not is_compiled)
    assert all(re.fullmatch(sentence, reason) for reason in reasons)
