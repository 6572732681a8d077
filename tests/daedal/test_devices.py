"""Devices by name, and their options as text."""

import pytest

from daedal.common.errors import DeviceError, UserError
from daedal.devices import find_gpu, open_gpu, takes_option, text_options
from daedal.sim.gpu.emulator import EmulatedGpu


def test_options_have_the_types_of_the_device() -> None:
    texts = ["registers=/dev/uio1", "timeout_seconds=2.5", "interrupt=a=b"]
    assert text_options("uio", texts) == {
        "registers": "/dev/uio1",
        "timeout_seconds": 2.5,
        "interrupt": "a=b",
    }
    assert text_options("uio", []) == {}


def test_simulators_have_a_memory_model_and_boards_have_none() -> None:
    names = ("functional", "timing", "rtl", "uio", "uart")
    assert [name for name in names if takes_option(name, "timing")] == ["timing", "rtl"]


@pytest.mark.parametrize(
    ("device", "text", "message"),
    [
        ("uio", "baud=3", "with a name of registers, interrupt, memory, .*; 'baud=3' is not"),
        ("uio", "registers", "must be NAME=VALUE with a name of .*; 'registers' is not"),
        ("uio", "timeout_seconds=soon", "option 'timeout_seconds' must be a number, not 'soon'"),
        ("timing", "timing=3", "with a name of none, for it has no options"),
        ("toaster", "a=b", "a device is one of functional, .*not 'toaster'"),
    ],
)
def test_other_options_are_refused(device: str, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        text_options(device, [text])


def test_gpus_by_name() -> None:
    assert text_options("gpu-emulated", ["seed=3"], gpu=True) == {"seed": 3}
    assert isinstance(open_gpu("gpu-emulated", seed=3), EmulatedGpu)
    with pytest.raises(UserError, match=r"^a GPU is one of .*gpu-emulated, not 'functional'$"):
        open_gpu("functional")


def test_the_emulated_gpu_is_no_gpu_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that fails is none, either."""
    asked: list[str] = []

    def fails(name: str) -> None:
        asked.append(name)
        raise DeviceError("it is broken")

    monkeypatch.setattr("daedal.devices.open_gpu", fails)
    assert find_gpu() is None
    assert "gpu-emulated" not in asked
