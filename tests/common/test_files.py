"""Outputs appear whole, in the place of regular files or as new ones, and of nothing else."""

import errno
import os
from pathlib import Path

import pytest

from daedal.common import files
from daedal.common.errors import UserError
from daedal.common.files import (
    check_output_file,
    check_output_folder,
    make_folder,
    replace_output,
    write_atomically,
)
from tests.support.odd_files import ODD_FILES, make_odd_file, unchanged


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_rights_are_those_of_any_new_file(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "ours", "text")
        (tmp_path / "plain").write_text("text")
        assert os.umask(umask) == umask, "the process keeps its umask"
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode for name in ("ours", "plain")]
    assert modes[0] == modes[1]


def test_the_old_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    make_folder(path.parent)
    write_atomically(path, "old")
    write_atomically(path, b"\xff\x00")
    assert path.read_bytes() == b"\xff\x00"
    assert names(path.parent) == {"file"}
    write_atomically(path.parent / ("y" * 255), "the longest name")


def test_a_link_to_a_file_stays_and_leads_to_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "x"
    target.write_text("old")
    (tmp_path / "link").symlink_to(target)
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert target.read_text() == "new"
    assert names(tmp_path / "elsewhere") == {"x"}


@pytest.mark.parametrize("kind", ODD_FILES)
def test_nothing_else_is_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    name = make_odd_file(kind, path)
    (tmp_path / "made").touch()
    rule = rf"must be a regular file or a new name, and '.*x' is {name}; choose another path"
    with unchanged(tmp_path):
        for refuse in (
            lambda: check_output_file(path),
            lambda: write_atomically(path, "new"),
            lambda: replace_output(tmp_path / "made", path),
        ):
            with pytest.raises(UserError, match=rule):
                refuse()


def test_an_output_that_became_a_pipe_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    allow = os.chmod

    def change(temporary: str, mode: int) -> None:
        allow(temporary, mode)
        os.mkfifo(path)

    monkeypatch.setattr(os, "chmod", change)
    with pytest.raises(UserError, match="is a pipe"):
        write_atomically(path, "new")
    assert names(tmp_path) == {"x"} and path.is_fifo()


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_text("old")

    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "replace", full)
    with (
        unchanged(tmp_path),
        pytest.raises(UserError, match=r"'.*x' is not: No space left on device; make room"),
    ):
        write_atomically(tmp_path / "x", "new")


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("none/x", "must be a file in a folder that exists and can be written, not '.*none/x'"),
        ("file/x", "must be a file in a folder that exists and can be written, not '.*file/x'"),
        ("n" * 256, "must have a path that can be made; .* has none: File name too long"),
    ],
)
def test_paths_where_nothing_can_lie(tmp_path: Path, path: str, rule: str) -> None:
    (tmp_path / "file").touch()
    with unchanged(tmp_path):
        for refuse in (check_output_file, lambda path: write_atomically(path, "new")):
            with pytest.raises(UserError, match=rule):
                refuse(tmp_path / path)


def test_folders_are_checked_before_they_are_made(tmp_path: Path) -> None:
    with unchanged(tmp_path):
        check_output_folder(tmp_path)
        check_output_folder(tmp_path / "new" / "newer", ["x"])
    make_folder(tmp_path / "new" / "newer")
    make_odd_file("a pipe", tmp_path / "new" / "x")
    check_output_folder(tmp_path / "new", ["y"])
    with pytest.raises(UserError, match="must be a regular file or a new name"):
        check_output_folder(tmp_path / "new", ["y", "x"])


@pytest.mark.parametrize("kind", [kind for kind in ODD_FILES if not kind.endswith("folder")])
@pytest.mark.parametrize("below", ["", "deep/er"])
def test_a_folder_in_the_place_of_something_else(tmp_path: Path, kind: str, below: str) -> None:
    name = make_odd_file(kind, tmp_path / "x")
    with (
        unchanged(tmp_path),
        pytest.raises(UserError, match=rf"must be one that can be made .*'.*x' is {name}; choose"),
    ):
        check_output_folder(tmp_path / "x" / below)


def test_a_folder_behind_a_link(tmp_path: Path) -> None:
    make_odd_file("a link to a folder", tmp_path / "x")
    check_output_folder(tmp_path / "x")
    check_output_folder(tmp_path / "x" / "deeper")


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.os, "access", lambda _path, _mode: False)
    with pytest.raises(UserError, match="is not writable"):
        check_output_folder(tmp_path / "new")
    with pytest.raises(UserError, match="in a folder that exists and can be written"):
        check_output_file(tmp_path / "x")


def test_names_in_other_encodings_are_escaped(tmp_path: Path) -> None:
    write_atomically(tmp_path / "page", os.fsdecode(b"caf\xe9 \xc3\xa9"))
    assert (tmp_path / "page").read_text("utf-8") == "caf\\udce9 \u00e9"
