"""Networks of usual structures on the emulated GPU, with fewer channels and smaller images."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from daedal.checking.onnxruntime_session import open_session
from daedal.compiler.codegen.gpu.ptxas import assembled, find_ptxas
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.gpu.build import build_gpu_code
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
@pytest.mark.parametrize("name", ["mlperf_tiny_vww_mobilenetv1", "vit_mnist", "stories260k"])
def test_a_shared_network_computes_what_onnxruntime_does(shared: Path, name: str) -> None:
    """MobileNet v1, a vision transformer, and a step of a decoder, whole: every result, relative to
    its largest element."""
    folder = shared / "models" / name
    model, inputs = MODELS[name](folder)
    found = on_gpu(model, inputs)
    for output, expected in zip(model.graph.output, open_session(model)(inputs), strict=True):
        difference = np.abs(found[output.name] - expected).max()
        assert difference <= 1e-4 * np.abs(expected).max(), output.name


@pytest.mark.slow
def test_a_quantized_transformer_computes_what_the_processor_does(shared: Path) -> None:
    folder = shared / "models" / "vit_mnist"
    model, inputs = onnx.load(folder / "model_qdq.onnx"), _digit(folder)[1]
    (found,) = on_gpu(model, inputs).values()
    (expected,) = HostProgram(build_host_code(model)).run(inputs).values()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.skipif(
    find_ptxas() is None, reason="ptxas is not installed (pip install 'daedal[gpu]')"
)
@pytest.mark.parametrize("name", NETWORKS)
def test_kernels_of_networks_need_no_memory_for_registers(name: str) -> None:
    code = build_gpu_code(NETWORKS[name][0](), architectures=["sm_80"])
    assert len(code.images["sm_80"]) == len(code.kernels) > 10
    for ptx in code.images["sm_80"]:
        cubin = assembled(ptx.decode("ascii"), "sm_80")
        assert (cubin.spilled_bytes, cubin.stack_bytes, cubin.warnings) == (0, 0, ())
