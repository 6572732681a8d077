"""Digests in a folder that only the user may open."""

from pathlib import Path

import pytest

from daedal.isa import own_digests
from daedal.isa.own_digests import OwnDigests, user_cache_root
from daedal.native.caches.place import CACHES, user_caches

DIGESTS = [f"{number:064x}" for number in range(9)]


def test_digests_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "own"
    assert DIGESTS[0] not in OwnDigests(folder)
    OwnDigests(folder).add(DIGESTS[0])
    assert DIGESTS[0] in OwnDigests(folder) and DIGESTS[1] not in OwnDigests(folder)
    # The folder above is that of other caches, which others must not be able to write, either.
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_may_open_counts_as_empty(tmp_path: Path) -> None:
    OwnDigests(tmp_path / "own").add(DIGESTS[0])
    for mode in (0o770, 0o702, 0o705):
        (tmp_path / "own").chmod(mode)
        assert DIGESTS[0] not in OwnDigests(tmp_path / "own")
    (tmp_path / "own").chmod(0o700)
    assert DIGESTS[0] in OwnDigests(tmp_path / "own")
    (tmp_path / "link").symlink_to(tmp_path / "own")
    assert DIGESTS[0] not in OwnDigests(tmp_path / "link")


def test_the_oldest_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_digests, "MAX_FILES", 4)
    for digest in DIGESTS:
        OwnDigests(tmp_path / "own").add(digest)
    assert len(list((tmp_path / "own").iterdir())) == 4
    assert DIGESTS[-1] in OwnDigests(tmp_path / "own")


def test_without_a_usable_folder_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("a file")
    for folder in (tmp_path / "own", None):
        OwnDigests(folder).add(DIGESTS[0])
        assert DIGESTS[0] not in OwnDigests(folder)


def test_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache_root() == tmp_path / "daedal"
    assert user_caches() == user_cache_root(), "there is one folder for all caches"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert user_caches() == user_cache_root() == Path.home() / ".cache" / "daedal"
    assert "verified" in CACHES
