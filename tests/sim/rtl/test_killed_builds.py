"""Builds whose process is ended or killed, that find a damaged cache, or none to write to.

A stand-in for Icarus builds at once, or never ends.
"""

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daedal.common.errors import UserError
from daedal.native.caches.limits import Limit
from daedal.sim.rtl import build as build_module
from daedal.sim.rtl import kept
from daedal.sim.rtl.build import Built, build_simulator
from daedal.sim.rtl.device import default_cache_dir
from tests.support.fake_tools import FakeIcarus
from tests.support.owners import give_away
from tests.support.processes import alive, wait_until

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="processes are found in /proc"
)

BUILDER = """
import signal, sys
from pathlib import Path
from daedal import cli
from daedal.sim.rtl.build import build_simulator

sizes = dict(data_bits=64, addr_bits=32, words=1024)
cli.app = lambda: build_simulator(
    "// design", **sizes, cache_dir=Path(sys.argv[1]), simulator="icarus"
)
# These tests may run where both are ignored: after nohup, or in the background of a script.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
cli.main()
"""

Start = Callable[[], "subprocess.Popen[str]"]


@pytest.fixture
def icarus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeIcarus]:
    """The stand-in, which builds at once."""
    fake = FakeIcarus(tmp_path / "tools")
    fake.use(monkeypatch)
    yield fake
    fake.end()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "some cache"
    folder.mkdir()
    return folder


@pytest.fixture
def start(cache: Path, icarus: FakeIcarus) -> Iterator[Start]:
    """Start the command line in a process of its own, where it builds a simulator in `cache`."""
    started = []

    def begin() -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", BUILDER, str(cache)]
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def build(cache: Path) -> Built:
    sizes = {"data_bits": 64, "addr_bits": 32, "words": 1024}
    return build_simulator("// design", **sizes, cache_dir=cache, simulator="icarus")


def entries(cache: Path) -> list[str]:
    """What lies in the cache but locks; the one simulator as its kind."""
    names = [path.name.split("-")[0] for path in cache.iterdir() if path.suffix != ".lock"]
    return sorted(names)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_ended_build_leaves_neither_processes_nor_files(
    icarus: FakeIcarus, cache: Path, start: Start, number: signal.Signals
) -> None:
    icarus.become("endless")
    process = start()
    tools = icarus.wait_for_build()
    assert all(map(alive, tools)) and entries(cache) == ["building"]
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number and "Traceback" not in said
    assert entries(cache) == []
    wait_until(lambda: not any(map(alive, tools)))


def test_a_killed_build_is_forgotten(icarus: FakeIcarus, cache: Path, start: Start) -> None:
    """Nobody told its tools, which see it themselves; the next builder removes its files."""
    icarus.become("endless")
    for _ in range(2):  # and again
        process = start()
        tools = icarus.wait_for_build()
        process.kill()
        process.wait()
        wait_until(lambda tools=tools: not any(map(alive, tools)))
        assert entries(cache) == ["building"]
    icarus.become(None)
    assert build(cache).program.read_text() == "design\n"
    assert entries(cache) == ["icarus"]


def test_a_build_that_goes_on_is_not_swept(icarus: FakeIcarus, cache: Path, start: Start) -> None:
    icarus.become("endless")
    start()
    icarus.wait_for_build()
    icarus.become(None)
    sizes = {"data_bits": 64, "addr_bits": 32, "words": 2048}
    build_simulator("// design", **sizes, cache_dir=cache, simulator="icarus")
    assert entries(cache) == ["building", "icarus"]


def test_files_of_builders_that_held_no_lock_are_swept(icarus: FakeIcarus, cache: Path) -> None:
    (cache / "building-old" / "obj").mkdir(parents=True)
    (cache / "building-old" / "obj" / "large.o").touch()
    build(cache)
    assert entries(cache) == ["icarus"]


def test_two_processes_share_one_build(icarus: FakeIcarus, cache: Path, start: Start) -> None:
    icarus.become("slow")
    processes = [start(), start()]
    for process in processes:
        _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (0, "")
    assert icarus.num_builds == 1
    assert entries(cache) == ["icarus"]


@pytest.mark.parametrize("damage", ["empty", "flipped", "missing", "no hashes", "foreign hashes"])
def test_a_damaged_simulator_is_built_again(icarus: FakeIcarus, cache: Path, damage: str) -> None:
    program = build(cache).program
    assert build(cache).build_seconds == 0
    if damage == "missing":
        program.unlink()
    elif damage.endswith("hashes"):
        hashes = program.parent / "hashes.json"
        hashes.write_text("[" * 100_000) if damage.startswith("foreign") else hashes.unlink()
    else:
        program.write_bytes(b"" if damage == "empty" else b"desigo\n")
    assert build(cache).build_seconds > 0
    assert program.read_text() == "design\n" and icarus.num_builds == 2


@pytest.mark.parametrize("where", ["cache", "folder", "program", "hashes"])
@pytest.mark.parametrize("how", ["owner", "mode"])
def test_a_simulator_that_another_user_may_have_put_there_is_not_run(
    icarus: FakeIcarus, cache: Path, monkeypatch: pytest.MonkeyPatch, where: str, how: str
) -> None:
    """Its name can be computed, and so can its hashes."""
    program = build(cache).program
    folder = program.parent
    files = {"cache": cache, "folder": folder, "program": program, "hashes": folder / "hashes.json"}
    assert build(cache).build_seconds == 0
    if how == "owner":
        give_away(files[where], monkeypatch)
    else:
        files[where].chmod(0o777)
    if where == "cache" or os.geteuid() != files[where].stat().st_uid:
        assert not kept.is_whole(folder)
    else:
        assert build(cache).build_seconds > 0
        assert icarus.num_builds == 2


def test_a_simulator_in_the_working_folder_is_not_run(
    icarus: FakeIcarus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That folder may be a download, with the simulators of its author in it."""
    build(tmp_path / "work" / ".daedal" / "rtl")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    built = build(default_cache_dir())
    assert built.build_seconds > 0
    assert tmp_path / "home" / "daedal" / "rtl" in built.program.parents
    assert os.listdir() == [".daedal"]


def test_a_cache_of_another_user_is_replaced_by_a_temporary_one(
    icarus: FakeIcarus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    theirs = build(default_cache_dir()).program
    give_away(theirs.parent.parent, monkeypatch)
    built = build(default_cache_dir())
    assert built.build_seconds > 0 and tmp_path not in built.program.parents


def test_simulators_unused_for_longest_are_removed(icarus: FakeIcarus, cache: Path) -> None:
    program = build(cache).program
    (cache / "icarus-old").mkdir()
    (cache / "icarus-old" / "simulator.vvp").write_bytes(bytes(1000))
    os.utime(cache / "icarus-old", (1, 1))
    made = cache / "building-new"
    made.mkdir()
    (made / "x").write_bytes(bytes(100))
    kept.install(made, cache / "icarus-new", Limit(2000))
    assert (cache / "icarus-old").exists() and program.exists()
    shutil.rmtree(cache / "icarus-new")
    made.mkdir()
    (made / "x").write_bytes(bytes(100))
    kept.install(made, cache / "icarus-new", Limit(1000))
    assert not (cache / "icarus-old").exists() and program.exists()


def test_a_cache_that_cannot_be_written_is_read(
    icarus: FakeIcarus, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(cache)

    def refuse(*_arguments: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(build_module, "alone", refuse)
    monkeypatch.setattr(build_module, "writable", refuse)
    assert build(cache).build_seconds == 0


def test_a_cache_that_cannot_be_made(icarus: FakeIcarus, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="a cache must be a folder that this user alone can write"):
        build(tmp_path / "file" / "rtl")
    assert icarus.num_builds == 0


@pytest.mark.parametrize("call", ["mkdtemp", "seal"])
def test_a_full_disk(
    icarus: FakeIcarus, cache: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(kept.tempfile if call == "mkdtemp" else kept, call, full)
    with pytest.raises(UserError, match=r"with room; '.*some cache' is none: No space left"):
        build(cache)
    assert entries(cache) == []
