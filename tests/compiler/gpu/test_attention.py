"""Attention of models becomes one kernel, if nothing else reads its scores and weights."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from daedal.artifact.gpu_code import GpuCode
from daedal.checking.onnxruntime_session import open_session
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.gpu.build import build_gpu_code
from daedal.runtime.gpu_program import GpuProgram
from daedal.runtime.host_code import HostProgram
from daedal.sim.gpu.emulator import EmulatedGpu
from tests.support.gpu_code import product_kernels

HEADS, WIDTH = 2, 5
HALF = TensorProto.FLOAT16
node = helper.make_node


def model_of(
    queries: int,
    keys: int,
    *,
    inner: list[onnx.NodeProto] | None = None,
    outputs: tuple[str, ...] = ("y",),
    after: tuple[onnx.NodeProto, ...] = (),
    dtype: int = TensorProto.FLOAT,
    width: int = WIDTH,
    **constants: np.ndarray,
) -> onnx.ModelProto:
    """From q (1, queries, heads * width), k and v (1, keys, heads * width) to y, which is what
    `after` makes of the means r. `inner` are the nodes from the products p to the weights w."""
    constants["heads"] = np.array([0, 0, HEADS, width])
    inner = inner or [node("Softmax", ["p"], ["w"])]
    nodes = []
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes.append(node("Reshape", [name, "heads"], [f"{name}h"]))
        nodes.append(node("Transpose", [f"{name}h"], [f"{name}t"], perm=order))
    nodes += [node("MatMul", ["qt", "kt"], ["p"]), *inner, node("MatMul", ["w", "vt"], ["r"])]
    nodes += after or [node("Identity", ["r"], ["y"])]
    size = HEADS * width
    graph = helper.make_graph(
        nodes,
        "network",
        [
            helper.make_tensor_value_info(name, dtype, (1, count, size))
            for name, count in (("q", queries), ("k", keys), ("v", keys))
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


def compared(model: onnx.ModelProto) -> GpuCode:
    """The code of a model that computes what onnxruntime does, without races."""
    rng = np.random.default_rng(2)
    inputs = {
        item.name: rng.standard_normal([d.dim_value for d in item.type.tensor_type.shape.dim])
        for item in model.graph.input
    }
    is_half = model.graph.input[0].type.tensor_type.elem_type == HALF
    dtype, error = (np.float16, 2e-3) if is_half else (np.float32, 1e-5)
    inputs = {name: value.astype(dtype) for name, value in inputs.items()}
    code = build_gpu_code(model, architectures=["emulated"], checked=True)
    assert not code.host.interpreted and not code.on_processor
    found = GpuProgram(code, EmulatedGpu(races=True, seed=0)).run(inputs)
    for one, other in zip(found.values(), open_session(model)(inputs), strict=True):
        np.testing.assert_allclose(one, other, rtol=error, atol=error)
    return code


def products(code: GpuCode) -> list[int]:
    """Multiply-accumulates of the kernels that have some."""
    found = {call.symbol: call.products for call in code.host.calls}
    return [found[kernel.symbol] for kernel in product_kernels(code)]


MASKED = [
    node("Mul", ["p", "scale"], ["s"]),
    node("Add", ["s", "mask"], ["m"]),
    node("Softmax", ["m"], ["w"]),
]
CAUSAL = np.triu(np.full((7, 9), -np.inf, np.float32), 3)
SELECTED = [
    node("Mul", ["p", "scale"], ["s"]),
    node("Where", ["seen", "s", "least"], ["m"]),
    node("Softmax", ["m"], ["w"]),
]
HIDDEN = [
    node("Add", ["p", "mask"], ["s"]),
    node("Where", ["hidden", "least", "s"], ["m"]),
    node("Softmax", ["m"], ["w"]),
]
SEEN = np.tril(np.ones((7, 9), bool), 2)


@pytest.mark.parametrize(
    "model",
    [
        model_of(7, 9),
        model_of(7, 9, inner=MASKED, scale=np.float32([0.3]), mask=CAUSAL),
        model_of(
            7,
            9,
            inner=SELECTED,
            scale=np.float32([0.3]),
            seen=SEEN,
            least=np.array(-np.inf, np.float32),
        ),
        model_of(
            7, 9, inner=HIDDEN, mask=CAUSAL / 2, hidden=~SEEN[:1], least=np.float32([[-3e38]])
        ),
        model_of(
            7,
            9,
            inner=SELECTED,
            scale=np.float16([0.3]),
            seen=SEEN,
            least=np.array(-6e4, np.float16),
            dtype=HALF,
        ),
        model_of(
            4,
            20,
            inner=[node("Div", ["p", "scale"], ["s"]), node("Softmax", ["s"], ["w"])],
            scale=np.float32([2.5]),
            after=(node("Mul", ["r", "r"], ["a"]), node("Exp", ["a"], ["y"])),
        ),
        model_of(6, 17, after=(node("Transpose", ["r"], ["y"], perm=[0, 2, 1, 3]),)),
        model_of(1, 170, after=(node("Transpose", ["r"], ["y"], perm=[0, 2, 1, 3]),)),
        model_of(
            2,
            9,
            inner=SELECTED,
            scale=np.float32([0.3]),
            seen=SEEN[:2],
            least=np.array(0, np.float32),
        ),
        model_of(1, 9, dtype=HALF),
        model_of(7, 9, dtype=HALF),
        model_of(
            7,
            9,
            inner=MASKED,
            scale=np.float16([0.3]),
            mask=CAUSAL.astype(np.float16),
            after=(node("Transpose", ["r"], ["y"], perm=[0, 2, 1, 3]),),
            dtype=HALF,
        ),
    ],
)
def test_attention_is_one_kernel(model: onnx.ModelProto) -> None:
    """With transposes before and behind it, and what follows element by element; no tensor has
    scores."""
    code = compared(model)
    (q,), (k,), _ = ({item.type.tensor_type.shape.dim[1].dim_value} for item in model.graph.input)
    assert products(code) == [2 * HEADS * q * k * WIDTH]
    assert len(code.host.calls) == 1
    sizes = [np.prod(buffer.shape) for buffer in code.host.buffers]
    assert HEADS * q * k not in sizes


@pytest.mark.parametrize(
    "model",
    [
        model_of(7, 9, outputs=("y", "w")),
        model_of(7, 9, outputs=("y", "p")),
        model_of(7, 9, after=(node("Relu", ["w"], ["n"]), node("MatMul", ["n", "vt"], ["y"]))),
        model_of(7, 9, inner=[node("Softmax", ["p"], ["w"], axis=2)]),
    ],
)
def test_scores_that_others_read_are_in_memory(model: onnx.ModelProto) -> None:
    """And so are those of a softmax over another axis."""
    assert len(products(compared(model))) >= 2


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, HALF])
def test_heads_of_more_than_128_elements_are_one_kernel(dtype: int) -> None:
    scale = np.array([0.1], onnx.helper.tensor_dtype_to_np_dtype(dtype))
    inner = [node("Mul", ["p", "scale"], ["s"]), node("Softmax", ["s"], ["w"])]
    code = compared(model_of(5, 9, dtype=dtype, width=136, inner=inner, scale=scale))
    assert len(code.host.calls) == 1


def test_heads_that_share_keys() -> None:
    """Two queries have one head of the keys and values: these are broadcast."""
    model = model_of(7, 9)
    del model.graph.value_info[:]
    model.graph.node[4].CopyFrom(node("Slice", ["vh0", "b", "e", "a"], ["vh"]))
    model.graph.node.insert(4, node("Reshape", ["v", "heads"], ["vh0"]))
    for name, value in (("b", 0), ("e", 1), ("a", 2)):
        model.graph.initializer.append(numpy_helper.from_array(np.array([value]), name))
    assert len(products(compared(model))) == 1


def test_processors_keep_their_kernels() -> None:
    """Which compute products, rows of softmax, and products."""
    assert len(build_host_code(model_of(7, 9)).calls) > 2


def attention_node(dtype: int = TensorProto.FLOAT, **attributes: int) -> onnx.ModelProto:
    """Four heads of queries and two of keys and values, and a mask that hides all keys from the
    first query."""
    mask = np.zeros((7, 9), onnx.helper.tensor_dtype_to_np_dtype(dtype))
    mask[0], mask[1:, 5:] = -np.inf, -2
    graph = helper.make_graph(
        [node("Attention", ["q", "k", "v", "mask"], ["y"], **attributes)],
        "network",
        [
            helper.make_tensor_value_info(name, dtype, shape)
            for name, shape in (
                ("q", (2, 4, 7, 5)),
                ("k", (2, 2, 9, 5)),
                ("v", (2, 2, 9, 6)),
            )
        ],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(mask, "mask")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, HALF])
@pytest.mark.parametrize("is_causal", [0, 1])
def test_the_operator_of_onnx(dtype: int, is_causal: int) -> None:
    """As processors compute it: weights are 0 where all keys are hidden."""
    model = attention_node(dtype, is_causal=is_causal)
    code = build_gpu_code(model, architectures=["emulated"], checked=True)
    assert len(products(code)) == len(code.host.calls) == 1
    rng = np.random.default_rng(3)
    kind = onnx.helper.tensor_dtype_to_np_dtype(dtype)
    inputs = {
        item.name: rng.standard_normal(
            [size.dim_value for size in item.type.tensor_type.shape.dim]
        ).astype(kind)
        for item in model.graph.input
    }
    found = GpuProgram(code, EmulatedGpu(races=True, seed=0)).run(inputs)["y"]
    wanted = HostProgram(build_host_code(model)).run(inputs)["y"]
    assert (wanted[:, :, 0] == 0).all()
    error = 2e-3 if dtype == HALF else 1e-5
    np.testing.assert_allclose(found, wanted, rtol=error, atol=error)
