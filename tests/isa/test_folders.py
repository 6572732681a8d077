"""Folders are written whole, and never over files of somebody else."""

import errno
import os
from pathlib import Path

import pytest

from daedal.common.errors import UserError
from daedal.isa.folders import check_folder, write_folder

TEXTS = {"a": "one\n", "deep/down/b": "two\n"}
MARKER = ".marker"


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("before", ["missing", "empty", "linked"])
def test_a_new_folder_has_all(tmp_path: Path, before: str) -> None:
    folder = tmp_path / "out"
    if before == "empty":
        folder.mkdir()
    if before == "linked":
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / "elsewhere")
    write_folder(folder, TEXTS, MARKER)
    assert contents(folder) == {**TEXTS, MARKER: ""}
    left = {"out", "elsewhere"} if before == "linked" else {"out"}
    assert {path.name for path in tmp_path.iterdir()} == left


def test_an_earlier_export_is_renewed_and_others_stay(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_folder(folder, TEXTS, MARKER)
    (folder / "notes").write_text("mine")
    write_folder(folder, {"a": "new\n", "further/c": "three\n"}, MARKER)
    assert contents(folder) == {
        "a": "new\n",
        "deep/down/b": "two\n",
        "further/c": "three\n",
        "notes": "mine",
        MARKER: "",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_files_of_others_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years")
    with pytest.raises(UserError, match=r"must be new, empty, or one of an earlier export; '.*'"):
        write_folder(tmp_path, TEXTS, MARKER)
    assert contents(tmp_path) == {"thesis.tex": "years"}


def test_paths_that_cannot_be_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"must be one that can be written, not '.*file'"):
        check_folder(tmp_path / "file", MARKER)
    with pytest.raises(UserError, match=r"must lie in one that exists .*'.*none/out' does not"):
        check_folder(tmp_path / "none" / "out", MARKER)
    (tmp_path / "loop").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"must be one that can be written, not '.*loop'"):
        check_folder(tmp_path / "loop", MARKER)


def test_an_interrupted_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_bytes

    def interrupted(path: Path, data: bytes) -> int:
        if path.name == "b":
            raise KeyboardInterrupt
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path / "out", TEXTS, MARKER)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["a", "deep/down/b", "deep"])
def test_nothing_but_files_is_replaced(tmp_path: Path, name: str) -> None:
    """And what stands in the way is found before the first file is."""
    folder = tmp_path / "out"
    write_folder(folder, {"a": "old\n", "other/file": "old\n"}, MARKER)
    (folder / name).unlink(missing_ok=True)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(folder / name)
    before = contents(folder)
    with pytest.raises(UserError, match=r"an output .*must be .*'.*out/.*' is"):
        write_folder(folder, TEXTS, MARKER)
    assert contents(folder) == before and (folder / name).is_fifo()


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UserError, match=r"'.*out' is not: No space left on device; make room"):
        write_folder(tmp_path / "out", TEXTS, MARKER)
    assert os.listdir(tmp_path) == []
