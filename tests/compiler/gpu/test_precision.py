"""Products of float32 on tensor cores, of operands that are rounded to 16 bits."""

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
from tests.support.gpu_code import product_kernels

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


ERRORS = {"float16": 2e-3, "bfloat16": 2e-2}


@pytest.fixture(params=ERRORS)
def precision(request: pytest.FixtureRequest) -> str:
    """Those of 16 bits."""
    return str(request.param)


def compared(model: onnx.ModelProto, precision: str, *architectures: str) -> GpuCode:
    """The code of a model whose results differ by the roundings of 16 bits alone."""
    rng = np.random.default_rng(1)
    inputs = {
        item.name: rng.standard_normal(
            [size.dim_value for size in item.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for item in model.graph.input
    }
    chosen = ["emulated", *architectures]
    code = build_gpu_code(model, architectures=chosen, checked=True, precision=precision)
    assert not code.host.interpreted and not code.on_processor
    (found,) = GpuProgram(code, EmulatedGpu(races=True, seed=0)).run(inputs).values()
    (wanted,) = open_session(model)(inputs)
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert 1e-6 < error < ERRORS[precision]
    return code


def cores(code: GpuCode) -> list[str]:
    """Of the kernels with products."""
    return [kernel.cores for kernel in product_kernels(code)]


def test_operands_are_rounded_where_they_are_made(precision: str) -> None:
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
    code = compared(model, precision)
    assert cores(code) == [precision, precision, ""]
    assert len(code.host.calls) == 4
    halves = [buffer for buffer in code.host.buffers if buffer.dtype in ("float16", "uint16")]
    assert [buffer.shape for buffer in halves if buffer.shape != (20, 33)] == [
        (33, 24),
        (20, 24),
        (24, 16),
    ]


def test_convolutions(precision: str) -> None:
    """Which read pads."""
    model = network(
        [node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), node("Relu", ["a"], ["y"])],
        (1, 16, 9, 9),
        w=weights(12, 16, 3, 3),
    )
    assert cores(compared(model, precision)) == [precision]


@pytest.mark.heavy(4)
def test_groups_of_warps_multiply_where_all_architectures_have_them(precision: str) -> None:
    """The bias and the function behind them are of the same kernel."""
    model = network(
        [node("Gemm", ["x", "w", "b"], ["a"]), node("Tanh", ["a"], ["y"])],
        (64, 256),
        w=weights(256, 64) / 4,
        b=weights(64),
    )
    code = compared(model, precision, "sm_90a")
    assert cores(code) == [precision] and len(code.host.calls) == 2
    assert any(b"wgmma.mma_async" in image for image in code.images["sm_90a"])
    for others in (["sm_90a", "sm_80"], ["emulated"]):
        code = build_gpu_code(model, architectures=others, precision=precision)
        assert cores(code) == [precision]
        assert not any(b"wgmma" in image for images in code.images.values() for image in images)


@pytest.mark.parametrize("outputs", [("y",), ("y", "w")])
def test_attention(outputs: tuple[str, ...], precision: str) -> None:
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
        assert cores(compared(model, precision)) == [precision]
    else:
        code = build_gpu_code(model, architectures=["emulated"], precision=precision)
        assert len(cores(code)) == 2


def rounded(values: np.ndarray) -> np.ndarray:
    """To the nearest bfloat16, the even one of two."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    bits += 0x7FFF + (bits >> 16 & 1)
    return (bits >> 16 << 16).astype(np.uint32).view(np.float32).astype(np.float64)


@pytest.mark.parametrize("shape", [(20, 33, 24), (9, 130, 17)])
def test_bfloat16_is_the_nearest_and_sums_are_float32(shape: tuple[int, int, int]) -> None:
    """As numpy computes it of rounded operands, some of which float16 has not."""
    rows, depth, columns = shape
    rng = np.random.default_rng(3)
    w = (rng.standard_normal((depth, columns)) * 1e-6).astype(np.float32)
    x = (rng.standard_normal((rows, depth)) * 1e6).astype(np.float32)
    model = network([node("MatMul", ["x", "w"], ["y"])], (rows, depth), w=w)
    code = build_gpu_code(model, architectures=["emulated"], checked=True, precision="bfloat16")
    assert cores(code) == ["bfloat16"]
    (found,) = GpuProgram(code, EmulatedGpu(races=True, seed=0)).run({"x": x}).values()
    wanted = rounded(x) @ rounded(w)
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()
    assert np.abs(found - x @ w).max() >= 1e-4 * np.abs(wanted).max()


def test_without_products_of_warps_nothing_is_rounded(precision: str) -> None:
    model = network([node("MatMul", ["x", "w"], ["y"])], (20, 33), w=weights(33, 24))
    code = build_gpu_code(model, architectures=["emulated", "spirv"], precision=precision)
    assert cores(code) == [""]
    assert len(code.host.calls) == 1


def test_code_that_is_compiled_again_has_the_same_precision(precision: str) -> None:
    model = network([node("MatMul", ["x", "w"], ["y"])], (20, 33), w=weights(33, 24))
    part = daedal.compile(model, target="gpu:emulated", precision=precision).host_parts[0]
    assert part.gpu is not None and part.gpu.precision == precision
    for asked, expected in ((precision, precision), ("float32", "")):
        code = compile_gpu_part(part.model, tuple(part.gpu.images), asked)
        assert code is not None and cores(code) == [expected]


def test_precisions_that_there_are() -> None:
    model = network([node("MatMul", ["x", "w"], ["y"])], (20, 33), w=weights(33, 24))
    with pytest.raises(UserError, match="must be one of float32, float16, bfloat16, not 'int4'"):
        build_gpu_code(model, architectures=["emulated"], precision="int4")
    with pytest.raises(UserError, match="precision float16 needs target gpu, not cpu"):
        daedal.compile(model, target="cpu", precision="float16")
    part = daedal.compile(model, target="gpu:emulated", precision="float16").host_parts[0]
    assert part.gpu is not None and cores(part.gpu) == ["float16"]
