"""The demo: it says what it compared, and fails where something differs."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daedal
from daedal.api import SimulationResult, simulate
from daedal.common.errors import DeviceError
from daedal.devices import open_device
from examples.digits import demo

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def without_rtl(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo on two images, with the functional simulator in place of the RTL."""

    def functional(_name: str, variant: daedal.Variant, **_options: Any) -> Any:
        return open_device("functional", variant)

    monkeypatch.setattr(demo, "open_device", functional)
    monkeypatch.setattr(demo, "NUM_IMAGES", 2)


def test_demo_says_what_it_checked(without_rtl: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main() == 0
    out = capsys.readouterr().out
    assert "8 layers" in out and "of 256 multiply-accumulates" in out and "(2 of 2)" in out
    assert "RTL bytes = functional bytes = numpy integer reference" in out
    assert "is at most 1 from onnxruntime" in out


def test_one_wrong_byte_fails_the_demo(
    without_rtl: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def wrong(*arguments: Any, **options: Any) -> SimulationResult:
        result = simulate(*arguments, **options)
        for name, array in result.tensors.items():
            if name == "conv1_q":
                array.flat[-1] ^= 1
        return result

    monkeypatch.setattr(daedal, "simulate", wrong, raising=False)
    assert demo.main() == 1
    out = capsys.readouterr().out
    assert "FAILED: RTL, every layer: 1 of 2048 bytes of 'conv1_q' differ" in out
    assert "RTL bytes = functional bytes" not in out


def test_an_operator_too_far_from_onnxruntime_fails_the_demo(
    without_rtl: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import daedal.checking.integer_reference

    def shifted(*arguments: Any) -> list[np.ndarray]:
        return [value.astype(np.int16) + 2 for value in original(*arguments)]

    original = daedal.checking.integer_reference.run_onnxruntime
    monkeypatch.setattr(daedal.checking.integer_reference, "run_onnxruntime", shifted)
    assert demo.main() == 1
    assert re.search(r"FAILED: conv0_q is [123] apart from onnxruntime", capsys.readouterr().out)


def test_a_device_that_fails_fails_the_demo(
    without_rtl: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_arguments: Any, **_options: Any) -> SimulationResult:
        raise DeviceError("the interrupt must come within 10 cycles; it did not")

    monkeypatch.setattr(daedal, "simulate", fail, raising=False)
    assert demo.main() == 2
    assert "error: the interrupt must come within 10 cycles" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.rtl
def test_demo_on_the_rtl() -> None:
    done = subprocess.run(
        [sys.executable, "examples/digits/demo.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "(16 of 16)" in done.stdout
