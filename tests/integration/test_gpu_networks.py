"""Networks of usual structures on the emulated GPU, with fewer channels and smaller images."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from daedal.checking.onnxruntime_session import open_session
from daedal.compiler.codegen.gpu.nvptx import ARCHITECTURES
from daedal.compiler.codegen.gpu.ptxas import assembled, find_ptxas
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.cpu.graph import processor_graph
from daedal.compiler.frontend.host_model import modern_model
from daedal.compiler.gpu.build import build_gpu_code
from daedal.compiler.graph.interpreter import run
from daedal.runtime.gpu_program import GpuProgram
from daedal.runtime.host_code import HostProgram
from daedal.sim.gpu.emulator import EmulatedGpu
from tests.support.reduced_networks import image, minilm, reduced, sentences

Given = tuple[onnx.ModelProto, dict[str, np.ndarray]]

FACTOR, SIZE = 4, 64
NETWORKS: dict[str, tuple[Callable[[], onnx.ModelProto], Callable[[], dict[str, np.ndarray]]]] = {
    "resnet50": (lambda: reduced("resnet50", FACTOR, SIZE), lambda: image(SIZE)),
    "squeezenet": (lambda: reduced("squeezenet", FACTOR, SIZE), lambda: image(SIZE)),
    "minilm": (minilm, sentences),
}


def _photo(folder: Path) -> Given:
    data = np.load(folder / "inputs.npz")
    x = (data["x_q"][:1].astype(np.float32) - data["zero_point"]) * data["scale"]
    return onnx.load(folder / "model.onnx"), {"input": x.astype(np.float32)}


def _digit(folder: Path) -> Given:
    images = np.load(folder / "inputs.npz")["image"]
    return onnx.load(folder / "model.onnx"), {"image": images[:1]}


def _step(folder: Path) -> Given:
    """The hundredth token, behind caches of those before."""
    data = np.load(folder / "decode_step100.npz")
    inputs = {name.removeprefix("in_"): data[name] for name in data if name.startswith("in_")}
    return onnx.load(folder / "decode.onnx"), inputs


MODELS: dict[str, Callable[[Path], Given]] = {
    "mlperf_tiny_vww_mobilenetv1": _photo,
    "vit_mnist": _digit,
    "stories260k": _step,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_computes_what_onnxruntime_does(name: str) -> None:
    """Relative to the largest result; no thread races, and nothing is left to the processor."""
    build, given = NETWORKS[name]
    model, inputs = build(), given()
    (found,) = on_gpu(model, inputs).values()
    (expected,) = open_session(model)(inputs)
    assert expected.std() > 0.05 * np.abs(expected).max()
    assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()


def on_gpu(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Results of the emulated GPU, which must compute all without a race."""
    code = build_gpu_code(model, architectures=["emulated"], checked=True)
    assert not code.host.interpreted and not code.on_processor
    device = EmulatedGpu(races=True, seed=0)
    found = GpuProgram(code, device).run(inputs)
    assert device.num_races == 0
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("resnet50", 128), ("squeezenet", SIZE)])
def test_a_network_is_compiled_as_users_have_it(name: str, size: int) -> None:
    """In a later opset, from which on maps have their channels last; as `compile_for_gpu` does.

    Of images of 64 pixels, this ResNet-50 has maps of 2x2 and is less accurate: of three images,
    onnxruntime's results are 3e-5 to 1.2e-4 from those of float64, and those of GPUs up to 1.7e-4
    from onnxruntime's.
    """
    model, inputs = modern_model(reduced(name, FACTOR, size)), image(size)
    (found,) = on_gpu(model, inputs).values()
    (expected,) = open_session(model)(inputs)
    assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlperf_tiny_vww_mobilenetv1", "vit_mnist", "stories260k"])
def test_a_shared_network_computes_what_onnxruntime_does(shared: Path, name: str) -> None:
    """MobileNet v1, a vision transformer, and a step of a decoder, whole: every result, relative to
    its largest element."""
    folder = shared / "models" / name
    model, inputs = MODELS[name](folder)
    found = on_gpu(modern_model(model), inputs)
    for output, expected in zip(model.graph.output, open_session(model)(inputs), strict=True):
        difference = np.abs(found[output.name] - expected).max()
        assert difference <= 1e-4 * np.abs(expected).max(), output.name


@pytest.mark.slow
def test_a_decoder_writes_what_onnxruntime_writes(shared: Path) -> None:
    """Token by token from the first one, behind the caches that the GPU computed."""
    model = onnx.load(shared / "models" / "stories260k" / "decode.onnx")
    code = build_gpu_code(modern_model(model), architectures=["emulated"])
    assert not code.host.interpreted and not code.on_processor
    program, session = GpuProgram(code, EmulatedGpu(seed=0)), open_session(model)
    shapes = {
        x.name: [d.dim_value for d in x.type.tensor_type.shape.dim] for x in model.graph.input
    }
    caches = {name: np.zeros(x, np.float32) for name, x in shapes.items() if "cache" in name}
    places, token, said = np.arange(shapes["mask"][-1]), 1, []
    for position in range(12):
        angles = position * np.tile(10000.0 ** (-np.arange(4) / 4), 2)
        seen = (places < position) | (places == places[-1])
        values = {
            "rope_cos": np.cos(angles),
            "rope_sin": np.sin(angles),
            "mask": np.where(seen, 0, -10000.0),
        }
        tables = {n: x.astype(np.float32).reshape(shapes[n]) for n, x in values.items()}
        inputs = {"token_ids": np.array([[token]]), **tables, **caches}
        found = program.run(inputs)
        for output, expected in zip(model.graph.output, session(inputs), strict=True):
            difference = np.abs(found[output.name] - expected).max()
            assert difference <= 1e-4 * np.abs(expected).max(), output.name
        for name, cache in caches.items():
            cache[:, :, position] = found[name.replace("cache", "new")][:, :, 0]
        token = int(found["logits"].argmax())
        said.append(token)
    pieces = json.loads((shared / "models" / "stories260k" / "pieces.json").read_text("utf-8"))
    text = b"".join(bytes.fromhex(pieces[number]["hex"]) for number in said)
    assert text.decode() == " Once upon a time, there was a little girl"[: len(text)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["mlperf_tiny_resnet8", "mlperf_tiny_vww_mobilenetv1", "mnist_pytorch_cnn", "vit_mnist"]
)
def test_a_quantized_network_computes_what_the_integer_reference_does(
    shared: Path, name: str
) -> None:
    """And the processor: every bit."""
    model = modern_model(onnx.load(shared / "models" / name / "model_qdq.onnx"))
    (x,) = model.graph.input
    shape = [size.dim_value or 1 for size in x.type.tensor_type.shape.dim]
    inputs = {x.name: np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    code = build_gpu_code(model, architectures=["emulated"], checked=True)
    assert "int8" in {kernel.cores for kernel in code.kernels}
    (found,) = on_gpu(model, inputs).values()
    reference = processor_graph(model)
    assert reference is not None
    (expected,) = run(reference, inputs).values()
    np.testing.assert_array_equal(found, expected)
    (computed,) = HostProgram(build_host_code(model)).run(inputs).values()
    np.testing.assert_array_equal(found, computed)


@pytest.mark.slow
@pytest.mark.skipif(
    find_ptxas() is None, reason="ptxas is not installed (pip install 'daedal[gpu]')"
)
@pytest.mark.parametrize(
    ("name", "is_modern"),
    [
        *((name, False) for name in NETWORKS),
        *((name, True) for name in NETWORKS),
    ],
)
@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_of_networks_need_no_memory_for_registers(
    name: str, is_modern: bool, precision: str, architecture: str
) -> None:
    """In the opset of the model, and in the one that users' models are brought to."""
    model = NETWORKS[name][0]()
    model = modern_model(model) if is_modern else model
    code = build_gpu_code(model, architectures=[architecture], precision=precision)
    assert len(code.images[architecture]) == len(code.kernels) > 10
    for ptx in code.images[architecture]:
        cubin = assembled(ptx.decode("ascii"), architecture)
        assert (cubin.spilled_bytes, cubin.stack_bytes, cubin.warnings) == (0, 0, ())
