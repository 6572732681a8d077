"""A pytest plugin that fails tests which use more CPU time than they may.

`make test` loads it (``-p tests.support.cpu_budget``). A test may use `LIMIT_S` seconds, one
marked ``heavy(seconds)`` that many. Tests marked ``slow`` have no limit, and `make test`
leaves them out (`durations`). Fixtures of a wider scope than a function are not counted: several
tests use them.

Seconds are those of the reference processor: on a slower or busier one the measured ones are
divided by the time of a calibration loop, which runs before and after them. A test that exceeds
its limit runs again, up to `REPETITIONS` times, and its shortest run counts: so imports, compiled
kernels and builds that it happened to pay for first are not counted, nor what another virtual
machine on the same core costs for a while.

``--cpu-times FILE`` appends the seconds of every test, and of the shared fixtures that were set up
for it.
"""

import json
import os
from collections.abc import Generator
from math import inf
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

__all__ = [
    "ID",
    "LIMIT_S",
    "MARKED_SLOW",
    "CpuBudget",
    "calibration_seconds",
    "cpu_seconds",
    "limit_seconds",
    "slowdown",
]

ID = pytest.StashKey[str]()
MARKED_SLOW = pytest.StashKey[bool]()
"""Whether a test is marked ``slow`` where it is written."""
"""The id of a test without the name of its group, which pytest-xdist appends."""
LIMIT_S = 1.0
REPETITIONS = 3
CALIBRATED_S = 0.3
"""Seconds from which on it matters how fast the processor is."""
CALIBRATION_HOLDS_S = 5.0
REFERENCE_S = 0.014
"""CPU seconds of the calibration loop on the reference processor, an AMD Zen 3 core (EPYC)."""


def cpu_seconds() -> float:
    """User and system time of this process and of the children that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def calibration_seconds() -> float:
    """CPU seconds of a fixed piece of Python, the best of several."""
    return min(_calibration_loop() for _ in range(3))


def slowdown() -> float:
    """By how much this processor is slower now than the reference; 1 for a faster one."""
    return max(1.0, calibration_seconds() / REFERENCE_S)


def _calibration_loop() -> float:
    began = process_time()
    counts: dict[tuple[int, str], int] = {}
    for number in range(20_000):
        key = (number % 97, str(number))
        counts[key] = counts.get(key, 0) + number
    sorted(counts.items(), key=lambda item: -item[1])
    return process_time() - began


def limit_seconds(item: pytest.Item) -> float | None:
    """CPU seconds that a test may use on the reference processor; None: no limit."""
    if item.get_closest_marker("slow"):
        return None
    heavy = item.get_closest_marker("heavy")
    return float(heavy.args[0]) if heavy else LIMIT_S


class CpuBudget:
    """Measures each test of a process, and reports those beyond their limit as errors.

    `times`: a file to which lines of JSON are appended, one for each test; other processes append
    to it, too.
    """

    def __init__(self, times: Path | None) -> None:
        self._times = times
        self._shared_s = 0.0
        self._slowdown, self._calibrated_at = 1.0, -inf

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        """Count what fixtures of a wider scope use apart from the test that needs them first."""
        if fixturedef.scope == "function":
            return (yield)
        began, inner = cpu_seconds(), self._shared_s
        try:
            return (yield)
        finally:
            self._shared_s = inner + cpu_seconds() - began

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, Any, Any]:
        """Run a test, once more if it exceeded its limit, and report an error if it did again."""
        began, self._shared_s = cpu_seconds(), 0.0
        result = yield
        used, shared = cpu_seconds() - began - self._shared_s, self._shared_s
        limit = limit_seconds(item)
        if limit is not None and used > limit:
            speed = slowdown()
            used /= speed
            for _ in range(REPETITIONS):
                if used <= limit:
                    break
                again, before, speed = self._used_again(item, nextitem), speed, slowdown()
                used = min(used, again * 2 / (before + speed))
            if used > limit:
                _report_excess(item, used, limit)
        elif used > CALIBRATED_S:
            used /= self._recent_slowdown()
        if self._times:
            test = item.stash.get(ID, item.nodeid)
            line: dict[str, Any] = {
                "test": test,
                "cpu_s": round(used, 3),
                "shared_s": round(shared, 3),
            }
            if item.stash.get(MARKED_SLOW, False):
                line["marked_slow"] = True
            with self._times.open("a", encoding="utf-8") as out:
                out.write(json.dumps(line) + "\n")
        return result

    def _recent_slowdown(self) -> float:
        now = monotonic()
        if now - self._calibrated_at > CALIBRATION_HOLDS_S:
            self._slowdown, self._calibrated_at = slowdown(), now
        return self._slowdown

    def _used_again(self, item: pytest.Item, nextitem: pytest.Item | None) -> float:
        """CPU seconds of another run of the test, whose outcome is not reported."""
        began, self._shared_s = cpu_seconds(), 0.0
        runtestprotocol(item, log=False, nextitem=nextitem)
        return cpu_seconds() - began - self._shared_s


def _report_excess(item: pytest.Item, used: float, limit: float) -> None:
    text = (
        f"{item.nodeid} uses {used:.1f} CPU seconds of the reference processor and may use "
        f"{limit:g}: make it faster, or mark it `heavy(seconds)`, or add it to the slow tests in "
        "tests/durations.json (`make durations`)"
    )
    report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "teardown")
    item.ihook.pytest_runtest_logreport(report=report)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that keeps what was measured."""
    parser.addoption(
        "--cpu-times", type=Path, metavar="FILE", help="append each test's CPU seconds to FILE"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Measure from now on."""
    config.pluginmanager.register(CpuBudget(config.getoption("--cpu-times")), "cpu_budget")
