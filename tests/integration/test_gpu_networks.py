"""Networks of usual structures on the emulated GPU, with fewer channels and smaller images."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from daedal.checking.onnxruntime_session import open_session
from daedal.compiler.codegen.gpu.ptxas import assembled, find_ptxas
from daedal.compiler.gpu.build import build_gpu_code
from daedal.runtime.gpu_program import GpuProgram
from daedal.sim.gpu.emulator import EmulatedGpu
from tests.support.reduced_networks import image, minilm, reduced, sentences

FACTOR, SIZE = 4, 64
NETWORKS: dict[str, tuple[Callable[[], onnx.ModelProto], Callable[[], dict[str, np.ndarray]]]] = {
    "resnet50": (lambda: reduced("resnet50", FACTOR, SIZE), lambda: image(SIZE)),
    "squeezenet": (lambda: reduced("squeezenet", FACTOR, SIZE), lambda: image(SIZE)),
    "minilm": (minilm, sentences),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_computes_what_onnxruntime_does(name: str) -> None:
    """Relative to the largest result; no thread races, and nothing is left to the processor."""
    build, given = NETWORKS[name]
    model, inputs = build(), given()
    code = build_gpu_code(model, architectures=["emulated"], checked=True)
    assert not code.host.interpreted and not code.on_processor
    device = EmulatedGpu(races=True, seed=0)
    (found,) = GpuProgram(code, device).run(inputs).values()
    (expected,) = open_session(model)(inputs)
    assert device.num_races == 0
    assert expected.std() > 0.05 * np.abs(expected).max()
    assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()


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
