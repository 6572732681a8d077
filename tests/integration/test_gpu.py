"""Whole models on the emulated GPU, whose detectors look at every access."""

import gc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import daedal
from daedal.checking.onnxruntime_session import open_session
from daedal.common.errors import UserError
from daedal.compiler.codegen.gpu.ptxas import find_ptxas
from daedal.compiler.gpu.build import build_gpu_code
from daedal.runtime.devices.cuda.device import CudaGpu
from daedal.runtime.devices.cuda.driver import Driver
from daedal.runtime.gpu_program import GpuProgram
from daedal.runtime.host_code import HostProgram
from daedal.sim.gpu.emulator import EmulatedGpu
from examples.digits.data import demo_images
from tests.support.fake_cuda import FakeCuda
from tests.support.shared_models import MODELS, SharedModel

ROOT = Path(__file__).resolve().parents[2]
FLOAT = TensorProto.FLOAT


def model_of(
    nodes: list[onnx.NodeProto], shape: tuple[int, ...], **constants: np.ndarray
) -> onnx.ModelProto:
    """From x to y."""
    values = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_empty_tensor_value_info("y")],
        values,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


def weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    scale = np.sqrt(2 / np.prod(shape[1:]))
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def perceptron(rng: np.random.Generator) -> onnx.ModelProto:
    node = helper.make_node
    return model_of(
        [
            node("Gemm", ["x", "w", "b"], ["a"], transB=1),
            node("Relu", ["a"], ["c"]),
            node("Gemm", ["c", "v"], ["d"], transB=1),
            node("LayerNormalization", ["d", "s"], ["e"]),
            node("Softmax", ["e"], ["y"]),
        ],
        (3, 20),
        w=weights(rng, 33, 20),
        b=weights(rng, 33, 1)[:, 0],
        v=weights(rng, 10, 33),
        s=np.ones(10, np.float32),
    )


def convolutions(rng: np.random.Generator) -> onnx.ModelProto:
    node = helper.make_node
    return model_of(
        [
            node("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1]),
            node("Relu", ["a"], ["c"]),
            node("Conv", ["c", "v"], ["d"], pads=[1, 1, 1, 1], group=8, strides=[2, 2]),
            node("Sigmoid", ["d"], ["e"]),
            node("MaxPool", ["c"], ["f"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
            node("Add", ["e", "f"], ["g"]),
            node("Concat", ["g", *9 * ["e"]], ["h"], axis=1),
            node("GlobalAveragePool", ["h"], ["i"]),
            node("Flatten", ["i"], ["j"]),
            node("MatMul", ["j", "u"], ["y"]),
        ],
        (1, 3, 9, 9),
        w=weights(rng, 8, 3, 3, 3),
        b=weights(rng, 8, 1)[:, 0],
        v=weights(rng, 8, 1, 3, 3),
        u=weights(rng, 80, 5),
    )


@pytest.mark.heavy(5)
@pytest.mark.parametrize("network", [perceptron, convolutions])
@pytest.mark.parametrize("seed", [0, 1])
def test_networks_of_floats(
    network: Callable[[np.random.Generator], onnx.ModelProto], seed: int
) -> None:
    """As onnxruntime computes them, in any order of the threads, and without a race."""
    rng = np.random.default_rng(seed)
    model = network(rng)
    code = build_gpu_code(model, architectures=["emulated"], checked=True)
    assert not code.host.interpreted and not code.on_processor
    program = GpuProgram(code, EmulatedGpu(races=True, seed=seed))
    session = open_session(model)
    for _ in range(2):
        x = rng.standard_normal(code.host.buffers[code.host.names["x"]].shape).astype(np.float32)
        (expected,) = session({"x": x})
        np.testing.assert_allclose(program.run({"x": x})["y"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.heavy(5)
@pytest.mark.parametrize("name", ["digits", "digits_qdq"])
def test_trained_networks(name: str) -> None:
    """As on the processor; integers to the bit."""
    path = ROOT / "examples" / "digits" / f"{name}.onnx"
    images, _ = demo_images(1)
    found, expected = (
        daedal.simulate(daedal.compile(path, target=target), {"input": images}, device=device)
        for target, device in (("gpu:emulated", "gpu-emulated"), ("cpu", None))
    )
    np.testing.assert_allclose(
        found.outputs["probabilities"], expected.outputs["probabilities"], atol=1e-6
    )
    assert (found.profiles, found.layers) == ((), ())


@pytest.mark.heavy(5)
@pytest.mark.parametrize(("precision", "most"), [("float16", 4e-3), ("bfloat16", 4e-2)])
def test_a_trained_network_of_16_bits(precision: str, most: float) -> None:
    """The same digits, and shares that differ by roundings alone."""
    path = ROOT / "examples" / "digits" / "digits.onnx"
    images, _ = demo_images(1)
    compiled = daedal.compile(path, target="gpu:emulated", precision=precision)
    gpu = compiled.host_parts[0].gpu
    assert gpu is not None and precision in {kernel.cores for kernel in gpu.kernels}
    found = daedal.simulate(compiled, {"input": images}, device="gpu-emulated")
    (wanted,) = open_session(onnx.load(path))({"input": images})
    error = np.abs(found.outputs["probabilities"] - wanted).max()
    assert 1e-9 < error < most and wanted.max() > 0.5
    assert found.outputs["probabilities"].argmax() == wanted.argmax()


def test_quantized_convolutions_are_products_on_tensor_cores() -> None:
    """Of int8, but for the first one, of one channel, and the last one, of one pixel."""
    path = ROOT / "examples" / "digits" / "digits_qdq.onnx"
    code = daedal.compile(path, target="gpu:emulated").host_parts[0].gpu
    assert code is not None
    known = {kernel.symbol: kernel.cores for kernel in code.kernels}
    cores = {call.computes: known[call.symbol] for call in code.host.calls if call.products}
    assert cores == {
        ("conv0_q",): "",
        ("conv1_q",): "int8",
        ("add0_q",): "int8",
        ("conv3_q",): "int8",
        ("fc0_dq",): "",
    }


def test_products_of_products_of_float16_are_on_tensor_cores() -> None:
    """What one stores is rounded as the next one reads it."""
    rng = np.random.default_rng(0)
    half = TensorProto.FLOAT16
    names = {"a": (72, 96), "b": (96, 40), "c": (40, 17)}
    made = {
        name: (rng.standard_normal(shape) / 9).astype(np.float16) for name, shape in names.items()
    }
    graph = helper.make_graph(
        [helper.make_node("MatMul", pair, [y]) for *pair, y in ("xah", "hbg", "gcy")],
        "network",
        [helper.make_tensor_value_info("x", half, (33, 72))],
        [helper.make_tensor_value_info("y", half, (33, 17))],
        [numpy_helper.from_array(value, name) for name, value in made.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    code = build_gpu_code(model, architectures=["emulated"], checked=True)
    assert [kernel.cores for kernel in code.kernels] == ["float16"] * 3
    x = rng.standard_normal((33, 72)).astype(np.float16)
    found = GpuProgram(code, EmulatedGpu(races=True, seed=1)).run({"x": x})["y"]
    (expected,) = open_session(model)({"x": x})
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_shared_networks(shared: Path, model: SharedModel) -> None:
    """The integers of the processor, in any order of the threads, and without a race."""
    part = daedal.compile(model.path(shared), target="cpu").host_parts[0]
    (processor,) = part.codes
    serialized = onnx.ModelProto.FromString(part.model)
    code = build_gpu_code(serialized, architectures=["emulated"], checked=True)
    assert not code.host.interpreted and not code.on_processor
    program = GpuProgram(code, EmulatedGpu(races=True, seed=0))
    (name,) = code.host.inputs
    image = model.images(shared)[:1].reshape(code.host.buffers[code.host.names[name]].shape)
    found, expected = (item.run({name: image}) for item in (program, HostProgram(processor)))
    for output, array in expected.items():
        np.testing.assert_allclose(found[output], array, rtol=1e-6, atol=1e-7)


def test_an_accelerator_beside_a_gpu() -> None:
    """The host's parts run on the GPU, and the results are those of the processor's code, but for
    the order of the sum of softmax: four units in the last place."""
    digits = ROOT / "examples" / "digits" / "digits_qdq.onnx"
    images = {"input": demo_images(2)[0]}
    joined = daedal.compile(digits, target="vta+gpu:emulated")
    alone = daedal.compile(digits, target="vta")
    assert joined.launches
    assert joined.has_gpu_code
    assert not alone.has_gpu_code
    gpu = EmulatedGpu()
    found = daedal.simulate(joined, images, gpu=gpu)
    wanted = daedal.simulate(alone, images)
    named = daedal.simulate(joined, images, device="functional+gpu-emulated")
    for name, array in wanted.outputs.items():
        np.testing.assert_allclose(found.outputs[name], array, rtol=5e-7, atol=0)
        np.testing.assert_array_equal(named.outputs[name], found.outputs[name])


def test_a_gpu_needs_something_to_run() -> None:
    alone = daedal.compile(ROOT / "examples" / "digits" / "digits_qdq.onnx", target="vta")
    with pytest.raises(UserError, match="nothing for a GPU to run; give the device 'functional'"):
        daedal.simulate(alone, {"input": demo_images(1)[0]}, device="functional+gpu-emulated")


@pytest.mark.skipif(
    find_ptxas() is None, reason="ptxas is not installed (pip install 'daedal[gpu]')"
)
@pytest.mark.parametrize(("capability", "is_cubin"), [((8, 6), True), ((9, 0), False)])
def test_machine_code_behind_the_driver_of_cuda(
    capability: tuple[int, int], is_cubin: bool
) -> None:
    """A GPU of the same generation gets the cubins, a later one the PTX."""
    rng = np.random.default_rng(0)
    model = perceptron(rng)
    code = build_gpu_code(model, architectures=["emulated", "sm_80"], cubins=True)
    emulated, ptx, cubins = (code.images[name] for name in code.images)
    parameters = {call.symbol: len(call.buffers) for call in code.host.calls}
    symbols = [kernel.symbol for kernel in code.kernels]
    library = FakeCuda(
        capability=capability,
        programs={} if is_cubin else dict(zip(ptx, emulated, strict=True)),
        cubins={
            cubin: ((8, 0), {symbol: parameters[symbol]}, program)
            for cubin, symbol, program in zip(cubins, symbols, emulated, strict=True)
        },
    )
    x = rng.standard_normal((3, 20)).astype(np.float32)
    (expected,) = open_session(model)({"x": x})
    found = GpuProgram(code, CudaGpu(driver=Driver(library))).run({"x": x})["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_network_behind_the_driver_of_cuda() -> None:
    """The images for sm_80, a graph of all launches, and nothing that is not given back."""
    rng = np.random.default_rng(0)
    model = perceptron(rng)
    code = build_gpu_code(model, architectures=["emulated", "sm_80"])
    emulated, ptx = (code.images[name] for name in code.images)
    library = FakeCuda(programs=dict(zip(ptx, emulated, strict=True)))
    program = GpuProgram(code, CudaGpu(driver=Driver(library)))
    x = rng.standard_normal((3, 20)).astype(np.float32)
    (expected,) = open_session(model)({"x": x})
    for _ in range(2):
        np.testing.assert_allclose(program.run({"x": x})["y"], expected, rtol=1e-5, atol=1e-6)
    assert library.launched == 2 * [call.symbol for call in code.host.calls]
    assert library.calls.count("cuGraphLaunch") == 2
    del program
    gc.collect()
    assert not library.held
