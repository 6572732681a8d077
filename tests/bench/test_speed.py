"""Bars of speed are about the calibration kernel, which is the same code on every processor."""

import pytest

from bench import calibration
from bench.calibration import Calibration
from bench.speed import Speed
from daedal.native.codegen import assembly_text
from daedal.native.cpu import Cpu, host_cpu

CALIBRATIONS = (Calibration(0.5, 0.25), Calibration(1.0, 0.25), Calibration(0.5, 0.25))


def test_seconds_are_counted_in_calibrations() -> None:
    """The run that was disturbed had a disturbed calibration, too."""
    speed = Speed("a", "b", "s", (1.0, 2.0, 1.5), CALIBRATIONS, 2.5, less_is_better=True)
    assert (speed.median, speed.ratio, speed.passed) == (1.5, 2.0, True)
    processor = Speed("a", "b", "s", (1.0, 2.0, 1.5), CALIBRATIONS, 2.5, True, on_processor=True)
    assert (processor.ratio, processor.passed) == (6.0, False)


def test_rates_are_counted_in_one_calibration() -> None:
    rate = Speed("a", "b", "cycles/s", (100.0, 60.0, 200.0), CALIBRATIONS, 60.0)
    assert (rate.median, rate.ratio, rate.passed) == (100.0, 60.0, True)
    assert not Speed("a", "b", "cycles/s", rate.values, CALIBRATIONS, 61.0).passed


def test_what_has_no_seconds_is_not_divided() -> None:
    times = Speed("a", "b", "times", (1.0, 3.0, 2.0), CALIBRATIONS, 2.0, True, absolute=True)
    assert (times.ratio, times.passed) == (2.0, True)


def test_the_kernel_is_one_chain_of_scalar_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    oldest = Cpu(host_cpu().triple, "x86-64", frozenset())
    lines = assembly_text(calibration._TEXT, oldest).splitlines()
    assert not any("mm" in line for line in lines), "no vectors"
    chained = [line.split() for line in lines if "imulq" in line]
    assert chained and all(line == ["imulq", "%rsi,", "%rax"] for line in chained)
    monkeypatch.setattr(calibration, "STEPS", 1000)
    taken = calibration.calibrate()
    assert taken.wall_seconds > 0 and taken.processor_seconds >= 0
