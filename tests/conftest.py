"""What every test shares: seeds, golden texts, the folder of shared models, strict skips in CI."""

import gc
import os
import signal
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import numpy as np
import pytest

from tests.support.browser import Browser, find_chromium, opened_browser
from tests.support.cpu_budget import ID
from tests.support.durations import Durations, read_table

if TYPE_CHECKING:
    from daedal.sim.rtl.device import RtlDevice

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = Path(__file__).resolve().parent / "golden"
SHARED = ROOT.parent / "shared"
CI = os.environ.get("DAEDAL_CI") == "1"
_MAY_LACK = ("../shared", "PyTorch", "OpenCL")
"""What CI need not have: models beside the repository; PyTorch and a runtime of OpenCL, which take
200 MB and more each."""
_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)

# Caches of tests, and of the processes that they start, lie in the repository: runs and workers
# share simulators, and `make clean` removes them. Yosys and nextpnr, compiled, stay with the user.
_USERS = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
os.environ.setdefault("YOWASP_CACHE_DIR", str(_USERS / "YoWASP"))
os.environ["XDG_CACHE_HOME"] = str(ROOT / ".daedal" / "cache")

# A loaded machine is slow, not wrong: no deadlines. In CI every run sees the same examples.
hypothesis.settings.register_profile(
    "daedal",
    deadline=None,
    derandomize=CI,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("daedal")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the texts under tests/golden instead of comparing with them",
    )
    parser.addoption("--shard", metavar="K/N", help="run part K of N of the slow tests")


def pytest_configure(config: pytest.Config) -> None:
    """Know the slow tests."""
    shard: str | None = config.getoption("--shard")
    number, count = map(int, shard.split("/")) if shard else (0, 0)
    if shard and not 1 <= number <= count:
        raise pytest.UsageError(f"--shard must be K/N with K from 1 to N, not {shard!r}")
    plugin = Durations(read_table(), (number, count) if shard else None)
    config.pluginmanager.register(plugin, "durations")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects without the garbage collector, which later skips the modules and tests, too."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _signals_handled_as_before() -> Iterator[None]:
    """Fail a test that leaves a handler of a signal behind: a later one would fail instead."""
    before = {number: signal.getsignal(number) for number in _HANDLED}
    yield
    changed = [number for number in _HANDLED if signal.getsignal(number) is not before[number]]
    for number in changed:
        signal.signal(number, before[number])
    assert not changed, f"the test leaves handlers of {[number.name for number in changed]}"


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed that depends on the test's name alone; pytest shows the print when the test fails."""
    value = zlib.crc32(request.node.stash[ID].encode())
    print(f"seed {value}")
    return value


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """Random numbers that are the same in every run of this test, and differ between tests."""
    return np.random.default_rng(seed)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` fails unless tests/golden/<name> holds exactly `text`."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        if not path.exists():
            pytest.fail(f"tests/golden/{name} does not exist: run pytest --update-golden once")
        assert text == path.read_text(encoding="utf-8"), (
            f"tests/golden/{name} differs: if the change is meant, run pytest --update-golden"
        )

    return check


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of models beside the repository; a test that needs it skips without."""
    if not SHARED.is_dir():
        pytest.skip("needs the models in ../shared, which is not there")
    return SHARED


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser for the tests of one module, or a skip that says what is missing."""
    if find_chromium() is None:
        pytest.skip("needs Chromium, which apt-get install chromium brings")
    with opened_browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="session")
def vta_rtl() -> "RtlDevice":
    """The RTL of variant `vta` on Verilator, or a skip that says what is missing.

    Emitting and building it takes a minute: tests that use this belong to the xdist group
    ``vta-rtl``, so that one worker does it once.
    """
    from bench.correctness.rtl_launches import rtl_device
    from daedal.common.errors import ToolError
    from daedal.isa.variant import load_variant
    from daedal.sim.rtl.toolchain import require_tools

    try:
        require_tools("verilator")
    except ToolError as error:
        pytest.skip(str(error))
    return rtl_device(load_variant("vta"))


def _fail_if_tool_missing(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure in CI, where everything but what `_MAY_LACK` names is there."""
    if not CI or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not any(name in reason for name in _MAY_LACK):
        report.outcome = "failed"
        report.longrepr = f"{reason}\n(with DAEDAL_CI=1 a skip is an error: install the tool)"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_if_tool_missing(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_tool_missing(report)
    return report
