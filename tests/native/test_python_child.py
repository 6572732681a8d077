"""Python processes import nothing from the working folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from daedal.native.caches.place import temporary_caches
from daedal.native.python_child import (
    SAFE_PATH,
    changed_environment,
    kept_variables,
    python_command,
    python_environment,
    tool_places,
    without_main,
)
from tests.support.hostile_folder import HostileFolder
from tests.support.owners import give_away

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("artifact", "common", "compiler", "daedal", "hw", "isa", "native", "runtime", "sim")

KNOWN = {
    "native/python_child.py": "the helper itself",
    "sim/rtl/orphan.py": "-I, which includes -P",
    "sim/rtl/compile.py": "for make and for Zig's archiver, with -P",
    "sim/rtl/toolchain.py": "for cocotb, with SAFE_PATH, and Zig's compiler, with -P",
    "native/tile_trial.py": "is asked whether there is one",
    "hw/formal/aiger.py": "where a script is looked for; Python puts its folder on the path",
}
"""Files that name this Python, and why they may."""


def test_blocks_without_the_main_module_may_overlap() -> None:
    main = sys.modules["__main__"]
    first, second = without_main(), without_main()
    first.__enter__()
    second.__enter__()
    assert not hasattr(sys.modules["__main__"], "__file__")
    first.__exit__(None, None, None)
    assert sys.modules["__main__"] is not main, "the second one is still open"
    second.__exit__(None, None, None)
    assert sys.modules["__main__"] is main


def test_a_child_and_its_own_child_import_nothing_from_there(tmp_path: Path) -> None:
    hostile = HostileFolder(tmp_path / "download")
    own_child = "import sys, subprocess; sys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))"
    done = subprocess.run(
        python_command("-c", own_child, "-S", "-c", "import pickle; print('imported')"),
        cwd=hostile.folder,
        env=python_environment({"EXTRA": "1"}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "imported\n" and hostile.imported == []


def test_every_child_is_started_by_the_helper() -> None:
    """Whoever names this Python otherwise explains it above."""
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if "sys.executable" in path.read_text(encoding="utf-8")
    }
    assert found == set(KNOWN)


def test_the_environment_is_changed_within_the_block() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONSAFEPATH", raising=False)
        patch.setenv("OTHER", "before")
        with changed_environment({**SAFE_PATH, "OTHER": "within"}):
            assert (os.environ["PYTHONSAFEPATH"], os.environ["OTHER"]) == ("1", "within")
        assert "PYTHONSAFEPATH" not in os.environ and os.environ["OTHER"] == "before"


def test_variables_that_a_library_sets_are_kept() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ABSENT", raising=False)
        patch.setenv("PRESENT", "before")
        patch.setenv("OTHER", "before")
        with pytest.raises(KeyError), kept_variables(["ABSENT", "PRESENT"]):
            os.environ.update(ABSENT="within", PRESENT="within", OTHER="within")
            raise KeyError
        assert "ABSENT" not in os.environ and os.environ["PRESENT"] == "before"
        assert os.environ["OTHER"] == "within"


@pytest.mark.parametrize("name", ["YoWASP", "wasmtime"])
def test_compiled_tools_of_another_user_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """They keep machine code in the user's cache by themselves."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / name).mkdir()
    (tmp_path / name).chmod(0o775)  # as under a umask of 002
    assert tool_places() == {}
    (tmp_path / name).chmod(0o777)
    assert tool_places() == {"XDG_CACHE_HOME": str(temporary_caches() / "tools")}
    (tmp_path / name).chmod(0o700)
    give_away(tmp_path / name, monkeypatch)
    assert Path(tool_places()["XDG_CACHE_HOME"]).is_dir()


def test_tools_of_a_user_without_a_home_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """YoWASP would look for machine code in a folder `~` of the working folder."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "relative")
    places = tool_places()
    assert set(places) == {"HOME", "XDG_CACHE_HOME"}
    assert all(Path(folder).is_dir() for folder in places.values())
