"""ONNX's backend interface: which devices it has, and that a GPU gives what the processor gives."""

import numpy as np
import onnx
import pytest
from onnx import helper

import daedal.backend
from daedal.common.errors import DeviceError
from daedal.sim.gpu.emulator import EmulatedGpu
from tests.support.host_models import one_model

MODEL = onnx.ModelProto.FromString(one_model([helper.make_node("Softmax", ["x"], ["y"])]))
X = np.array([[1, -2, 3], [0.5, 0, 1]], np.float32)


def test_a_machine_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daedal.backend.find_gpu", lambda: None)
    assert daedal.backend.supports_device("CPU:0")
    assert not daedal.backend.supports_device("CUDA")
    assert not daedal.backend.supports_device("NPU")
    with pytest.raises(DeviceError) as error:
        daedal.backend.prepare(MODEL, "CUDA:0")
    assert str(error.value) == (
        "a machine must have a GPU for device 'CUDA:0', and this has none; take the device 'CPU'"
    )


def test_a_gpu_gives_what_the_processor_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daedal.backend.find_gpu", EmulatedGpu)
    assert daedal.backend.supports_device("CUDA:0")
    found, expected = (
        daedal.backend.prepare(MODEL, device).run([X])[0] for device in ("CUDA", "CPU")
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_gpu_of_an_unknown_kind() -> None:
    class Other(EmulatedGpu):
        name = "other"
        architectures = ("gfx942",)  # type: ignore[assignment]

    with pytest.raises(DeviceError) as error:
        daedal.backend.Prepared(MODEL, Other())
    assert str(error.value) == (
        "kernels must be compiled for a GPU of gfx942 (other), and the compiler has none of these; "
        "take the device 'CPU'"
    )
