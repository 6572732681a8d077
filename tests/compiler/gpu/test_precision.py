"""Products of float32 on tensor cores, of operands that are rounded to float16."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import daedal
from daedal.artifact.gpu_code import GpuCode
from daedal.checking.onnxruntime_session import open_session
from daedal.common.errors import UserError
from daedal.compiler.gpu.build import build_gpu_code
from daedal.compiler.model import compile_gpu_part
from daedal.runtime.gpu_program import GpuProgram
from daedal.sim.gpu.emulator import EmulatedGpu
from tests.compiler.gpu.test_attention import MASKED, model_of

FLOAT = TensorProto.FLOAT
node = helper.make_node


def network(
    nodes: list[onnx.NodeProto], shape: tuple[int, ...], **constants: np.ndarray
) -> onnx.ModelProto:
    """From x to y."""
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32) / 4


def compared(model: onnx.ModelProto, *architectures: str) -> GpuCode:
    """The code of a model whose results differ by the roundings of float16 alone."""
    rng = np.random.default_rng(1)
    inputs = {
        item.name: rng.standard_normal(
            [size.dim_value for size in item.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for item in model.graph.input
    }
    chosen = ["emulated", *architectures]
    code = build_gpu_code(model, architectures=chosen, checked=True, precision="float16")
    assert not code.host.interpreted and not code.on_processor
    (found,) = GpuProgram(code, EmulatedGpu(races=True, seed=0)).run(inputs).values()
    (wanted,) = open_session(model)(inputs)
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert 1e-6 < error < 2e-3
    return code


def cores(code: GpuCode) -> list[str]:
    """Of the kernels with products."""
    return [kernel.cores for kernel in code.kernels if kernel.products]


def test_operands_are_rounded_where_they_are_made() -> None:
    """A constant when it is compiled, a result as it is stored, and an input by a kernel; products
    without enough terms keep float32."""
    model = network(
        [
            node("Gemm", ["x", "w", "b"], ["a"]),
            node("Relu", ["a"], ["c"]),
            node("MatMul", ["c", "v"], ["d"]),
            node("Reshape", ["d", "s"], ["e"]),
            node("MatMul", ["e", "u"], ["y"]),
        ],
        (20, 33),
        w=weights(33, 24),
        b=weights(24),
        v=weights(24, 16),
        s=np.array([40, 8]),
        u=weights(8, 9),
    )
    code = compared(model)
    assert cores(code) == ["float16", "float16", ""]
    assert len(code.host.calls) == 4
    halves = [buffer for buffer in code.host.buffers if buffer.dtype == "float16"]
    assert [buffer.shape for buffer in halves if buffer.shape != (20, 33)] == [
        (33, 24),
        (20, 24),
        (24, 16),
    ]


def test_convolutions() -> None:
    """Which read pads."""
    model = network(
        [node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), node("Relu", ["a"], ["y"])],
        (1, 16, 9, 9),
        w=weights(12, 16, 3, 3),
    )
    assert cores(compared(model)) == ["float16"]


@pytest.mark.heavy(4)
def test_groups_of_warps_multiply_where_all_architectures_have_them() -> None:
    """The bias and the function behind them are of the same kernel."""
    model = network(
        [node("Gemm", ["x", "w", "b"], ["a"]), node("Tanh", ["a"], ["y"])],
        (64, 256),
        w=weights(256, 64) / 4,
        b=weights(64),
    )
    code = compared(model, "sm_90a")
    assert cores(code) == ["float16"] and len(code.host.calls) == 2
    assert any(b"wgmma.mma_async" in image for image in code.images["sm_90a"])
    for others in (["sm_90a", "sm_80"], ["emulated"]):
        code = build_gpu_code(model, architectures=others, precision="float16")
        assert cores(code) == ["float16"]
        assert not any(b"wgmma" in image for images in code.images.values() for image in images)


@pytest.mark.parametrize("outputs", [("y",), ("y", "w")])
def test_attention(outputs: tuple[str, ...]) -> None:
    """Scores and sums are float32, also in kernels of their own."""
    model = model_of(
        9,
        20,
        inner=MASKED,
        scale=np.float32([0.3]),
        mask=np.zeros((9, 20), np.float32),
        outputs=outputs,
    )
    if len(outputs) == 1:
        assert cores(compared(model)) == ["float16"]
    else:
        code = build_gpu_code(model, architectures=["emulated"], precision="float16")
        assert len(cores(code)) == 2


def test_without_products_of_warps_nothing_is_rounded() -> None:
    model = network([node("MatMul", ["x", "w"], ["y"])], (20, 33), w=weights(33, 24))
    code = build_gpu_code(model, architectures=["emulated", "spirv"], precision="float16")
    assert cores(code) == [""]
    assert len(code.host.calls) == 1


def test_code_that_is_compiled_again_has_the_same_precision() -> None:
    model = network([node("MatMul", ["x", "w"], ["y"])], (20, 33), w=weights(33, 24))
    part = daedal.compile(model, target="gpu:emulated", precision="float16").host_parts[0]
    assert part.gpu is not None and part.gpu.precision == "float16"
    for precision, expected in (("float16", "float16"), ("float32", "")):
        code = compile_gpu_part(part.model, tuple(part.gpu.images), precision)
        assert code is not None and cores(code) == [expected]


def test_precisions_that_there_are() -> None:
    model = network([node("MatMul", ["x", "w"], ["y"])], (20, 33), w=weights(33, 24))
    with pytest.raises(UserError, match="must be one of float32, float16, not 'int4'"):
        build_gpu_code(model, architectures=["emulated"], precision="int4")
    with pytest.raises(UserError, match="precision float16 needs target gpu, not cpu"):
        daedal.compile(model, target="cpu", precision="float16")
    part = daedal.compile(model, target="gpu:emulated", precision="float16").host_parts[0]
    assert part.gpu is not None and cores(part.gpu) == ["float16"]
