"""Files and folders that another user may have written are never read."""

import os
from pathlib import Path

import pytest

from daedal.native.caches.trust import distrust, is_own_file, make_own_folder, read_own
from tests.support.owners import give_away


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    path.chmod(0o644)
    return path


def test_a_file_of_this_user_is_read(file: Path) -> None:
    assert is_own_file(file) and read_own(file) == b"content"
    assert distrust(file.parent) is None
    assert read_own(file.with_name("missing")) is None and distrust(file / "missing") is not None


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_can_write(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert not is_own_file(file) and read_own(file) is None


def test_a_file_of_another_user(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_away(file, monkeypatch)
    assert not is_own_file(file) and read_own(file) is None


def test_links_pipes_and_folders_are_no_files(file: Path) -> None:
    link, pipe, folder = (file.with_name(name) for name in ("link", "pipe", "folder"))
    link.symlink_to(file)
    os.mkfifo(pipe)  # reading it would wait for ever
    folder.mkdir()
    for path in (link, pipe, folder):
        assert not is_own_file(path) and read_own(path) is None


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_can_write(tmp_path: Path, mode: int) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    assert distrust(tmp_path / "cache") == f"others may write to it (mode {mode:o})"


def test_a_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    assert distrust(tmp_path / "cache") is None
    give_away(tmp_path / "cache", monkeypatch)
    assert str(distrust(tmp_path / "cache")).startswith("it belongs to another user (")


def test_links_in_the_place_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    assert distrust(link) == "it is a link to nothing"
    real.mkdir(mode=0o700)
    assert distrust(link) is None, "a user may move a cache, and leave a link"
    real.chmod(0o777)
    assert distrust(link) is not None
    real.chmod(0o700)
    give_away(link, monkeypatch)
    assert str(distrust(link)).startswith("it belongs to another user (")


def test_a_file_in_the_place_of_a_folder(file: Path) -> None:
    assert distrust(file) == "it is no folder"
    assert distrust(file / "below") == "it cannot be opened: Not a directory"
    with pytest.raises(NotADirectoryError):
        make_own_folder(file / "below")


def test_folders_are_made_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_own_folder(tmp_path / "a" / "b")
        make_own_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "a", tmp_path / "a" / "b")] == [
        0o700,
        0o700,
    ]
