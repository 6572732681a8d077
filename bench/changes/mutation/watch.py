"""A pytest plugin for runs of the mutation test: which tests run, what they reach, what they cost.

Input: the request, as JSON in the file that MUTATION_REQUEST names. Output: lines of JSON in the
file that it names as `out`. Keys of the request: `order` (ids of tests, in the order in which they
are to run; null: all), `trace` (whether to record which functions each test reaches), `root`,
`limit_s` (CPU seconds of the process), `stop_s` (CPU seconds after which no test begins).
"""

import cProfile
import json
import os
import resource
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis
import pytest

MOST_DATA_BYTES = 6 << 30
"""A fault must not take the machine's memory."""

REQUEST: dict[str, Any] = json.loads(Path(os.environ["MUTATION_REQUEST"]).read_text())


def cpu_seconds() -> float:
    """Of this process and of those that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Tracer:
    """Which functions of the repository ran, as ``path::qualified.name``."""

    def __init__(self, root: str) -> None:
        self._root = f"{root}/"
        self._profile = cProfile.Profile(subcalls=False, builtins=False)
        self._open: list[set[str]] = []

    def begin(self) -> set[str]:
        """A set that fills from now on."""
        self._flush()
        self._open.append(reached := set[str]())
        return reached

    def end(self, reached: set[str]) -> None:
        """The set is complete."""
        self._flush()
        self._open = [other for other in self._open if other is not reached]

    def _flush(self) -> None:
        self._profile.disable()
        for entry in self._profile.getstats():
            code = entry.code
            if not isinstance(code, str) and code.co_filename.startswith(self._root):
                path = code.co_filename.removeprefix(self._root)
                names = [part for part in code.co_qualname.split(".") if part[0] != "<"]
                for reached in self._open:
                    reached.add(f"{path}::{'.'.join(names)}")
        self._profile.clear()
        self._profile.enable()


class Watch:
    """The plugin."""

    def __init__(self) -> None:
        self._out = Path(REQUEST["out"])
        self._tracer = Tracer(REQUEST["root"]) if REQUEST["trace"] else None
        self._fixtures: dict[Any, set[str]] = {}
        self._importing = self._tracer.begin() if self._tracer else set[str]()

    def tell(self, **what: Any) -> None:
        """One line for who started us."""
        with self._out.open("a", encoding="utf-8") as out:
            out.write(json.dumps(what) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """The same examples in every run, and none made smaller: that one fails is enough."""
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        parent = hypothesis.settings.get_profile("daedal")
        hypothesis.settings.register_profile(
            "mutation", parent=parent, phases=phases, derandomize=True, database=None
        )
        hypothesis.settings.load_profile("mutation")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep what the request names, in its order."""
        if REQUEST["order"] is not None:
            named = {item.nodeid: item for item in items}
            items[:] = [named[name] for name in REQUEST["order"] if name in named]

    def pytest_collection_finish(self) -> None:
        """What importing the test files reaches counts for all their tests."""
        if self._tracer:
            self._tracer.end(self._importing)
            self.tell(imported=sorted(self._importing), cpu=cpu_seconds())

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        """What a shared fixture reaches counts for all tests that use it."""
        if self._tracer is None or fixturedef.scope == "function":
            return (yield)
        reached = self._tracer.begin()
        try:
            return (yield)
        finally:
            self._tracer.end(reached)
            self._fixtures[fixturedef] = reached

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """One test."""
        self.tell(begun=item.nodeid)
        began = cpu_seconds()
        reached = self._tracer.begin() if self._tracer else set[str]()
        result = yield
        if self._tracer:
            self._tracer.end(reached)
            for defined in item._fixtureinfo.name2fixturedefs.values():  # type: ignore[attr-defined]
                for fixture in defined:
                    reached |= self._fixtures.get(fixture, set())
            self.tell(ended=item.nodeid, cpu=cpu_seconds() - began, reached=sorted(reached))
        if cpu_seconds() > REQUEST["stop_s"]:
            item.session.shouldstop = "the time for measuring these tests is over"
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Failures, and what did not run."""
        if report.failed:
            self.tell(failed=report.nodeid)
        elif report.skipped:
            self.tell(skipped=report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported."""
        if report.failed:
            self.tell(failed=report.nodeid)


def pytest_configure(config: pytest.Config) -> None:
    """Limits first: what runs here may be faulty."""
    limit = int(REQUEST["limit_s"])
    with suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_DATA_BYTES, MOST_DATA_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    config.pluginmanager.register(Watch(), "mutation-watch")
