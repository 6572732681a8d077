"""Files of a cache: read only if nobody else can have written them, bounded, private."""

import os
from pathlib import Path

import pytest

from daedal.native.caches.kept_files import KeptFiles, sealed, unsealed
from daedal.native.caches.limits import Entry, Limit, entries, make_space
from tests.support.owners import give_away

LARGE = Limit(1 << 20)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    files = KeptFiles(tmp_path / "cache", LARGE)
    assert files.read("a") is None
    files.write("a", b"content")
    assert KeptFiles(tmp_path / "cache", LARGE).read("a") == b"content"


def test_others_cannot_open_it_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        KeptFiles(tmp_path / "cache", LARGE).write("a", b"content")
    finally:
        os.umask(before)
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "cache" / "a").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("where", ["folder", "file"])
@pytest.mark.parametrize("how", ["owner", "mode"])
def test_what_others_may_have_written_counts_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, how: str
) -> None:
    files = KeptFiles(tmp_path / "cache", LARGE)
    files.write("a", b"content")
    path = tmp_path / "cache" if where == "folder" else tmp_path / "cache" / "a"
    if how == "owner":
        give_away(path, monkeypatch)
    else:
        path.chmod(0o777)
    assert files.read("a") is None
    if where == "folder":
        files.write("b", b"more")
        assert not (tmp_path / "cache" / "b").exists(), "nor is anything written there"


def test_a_link_counts_as_missing(tmp_path: Path) -> None:
    files = KeptFiles(tmp_path / "cache", LARGE)
    files.write("a", b"content")
    (tmp_path / "cache" / "b").symlink_to("a")
    assert files.read("b") is None


def test_damage_is_noticed() -> None:
    assert unsealed(sealed(b"content")) == b"content"
    assert unsealed(sealed(b"")) == b""
    for damaged in (None, b"", b"short", sealed(b"content")[:-1], b"x" + sealed(b"content")[1:]):
        assert unsealed(damaged) is None


def test_folders_count_with_their_files_and_go_as_a_whole(tmp_path: Path) -> None:
    for age, name in enumerate(("old", "new")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_bytes(bytes(60))
        (tmp_path / name / "b").write_bytes(bytes(40))
        os.utime(tmp_path / name, (age, age))
    (tmp_path / "building-now").mkdir()
    (tmp_path / "x.lock").touch()
    (tmp_path / ".half").write_bytes(bytes(1000))
    assert sorted(entries(tmp_path)) == [
        Entry(age, 100, tmp_path / name) for age, name in enumerate(("old", "new"))
    ]
    assert make_space(tmp_path, Limit(340), 140) == (200, 2)
    assert make_space(tmp_path, Limit(340), 150) == (100, 1)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"new", "building-now", "x.lock", ".half"}, "others may be at work on the rest"
