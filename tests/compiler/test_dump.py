"""Dumps: every form whole, numbered, and none of them where the disk is full."""

import errno
import os
from pathlib import Path

import pytest

from daedal.common.errors import UserError
from daedal.compiler.dump import Dump


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())}


def test_forms_are_numbered_and_named_for_their_steps(tmp_path: Path) -> None:
    dump = Dump(tmp_path / "new" / "folder")
    dump("imported", "a graph")
    dump("../up/层\n", "another")
    found = texts(tmp_path / "new" / "folder")
    assert found == {"000_imported.txt": "a graph\n", "001_.._up_层_.txt": "another\n"}


def test_no_folder_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Dump(None)("imported", "a graph")
    assert list(tmp_path.iterdir()) == []


def test_a_compilation_that_starts_anew_leaves_nothing_of_the_first(tmp_path: Path) -> None:
    dump = Dump(tmp_path)
    dump("imported", "a graph")
    dump("abandoned", "a graph")
    (tmp_path / "notes").write_text("mine")
    dump.restart()
    dump("imported", "another")
    assert texts(tmp_path) == {"000_imported.txt": "another\n", "notes": "mine"}


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dump = Dump(tmp_path)
    dump("imported", "a graph")
    replace = os.replace

    def full(made: Path, path: Path) -> None:
        if "001" in str(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(made, path)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match=r"001_next\.txt' is not: No space left on device"):
        dump("next", "a graph")
    assert texts(tmp_path) == {}
