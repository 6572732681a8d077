"""Where caches lie: in the user's own folder, or in none; never in the working folder."""

import os
from pathlib import Path

import pytest

from daedal.common.errors import UserError
from daedal.native.caches import place
from daedal.native.caches.place import CACHES, cache_folder, user_caches, writable
from daedal.native.caches.report import cache_problem, cache_records
from tests.support.owners import give_away


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, with nothing in it."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_the_users_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert user_caches() == home / ".cache" / "daedal"
    assert cache_folder("rtl") == home / ".cache" / "daedal" / "rtl"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert user_caches() == home / ".cache" / "daedal"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "elsewhere"))
    assert user_caches() == home / "elsewhere" / "daedal"
    assert cache_problem() is None


@pytest.mark.parametrize("value", [None, "relative"])
def test_a_user_without_a_home(
    home: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    """As in a container that runs as a user whom its list of users does not have."""

    def unknown(_user: int) -> None:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.chdir(home)
    monkeypatch.delenv("HOME")
    if value is not None:
        monkeypatch.setenv("HOME", value)
    assert user_caches() is None
    folder = cache_folder("rtl")
    assert folder.is_absolute() and home not in folder.parents
    assert writable(folder) == folder and os.access(folder, os.W_OK)
    assert cache_problem() == (
        "nothing is kept for the next run: this user has no home folder; set XDG_CACHE_HOME to a "
        "folder of your own"
    )
    assert {record.problem for record in cache_records()} == {"there is no home folder"}
    assert list(home.iterdir()) == []


def test_a_cache_of_another_user_is_not_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caches = home / ".cache" / "daedal"
    (caches / "rtl").mkdir(parents=True)
    give_away(caches / "rtl", monkeypatch)
    assert caches not in cache_folder("rtl").parents
    problem = cache_problem()
    assert problem is not None
    assert f"'{caches / 'rtl'}' is not used, as it belongs to another user (" in problem


def test_a_cache_that_others_can_write_is_not_used(home: Path) -> None:
    caches = home / ".cache" / "daedal"
    caches.mkdir(parents=True)
    caches.chmod(0o777)
    for name in CACHES:
        assert cache_folder(name).parent == place.temporary_caches()
    assert cache_problem() == (
        f"not all is kept for the next run: '{caches}' is not used, as others may write to it "
        "(mode 777); set XDG_CACHE_HOME to a folder of your own"
    )


def test_a_cache_that_cannot_be_written(home: Path) -> None:
    """The user's own makes way for a temporary folder, one that was asked for does not."""
    (home / ".cache").touch()
    assert writable(cache_folder("rtl")).parent == place.temporary_caches()
    assert "it cannot be opened" in str(cache_problem())
    with pytest.raises(UserError) as caught:
        writable(home / ".cache" / "mine")
    assert str(caught.value) == (
        "a cache must be a folder that this user alone can write; "
        f"'{home}/.cache/mine' is none: it cannot be opened: Not a directory; choose another folder"
    )


def test_a_read_only_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cache_folder("rtl")
    assert writable(folder) == folder
    monkeypatch.setattr("os.access", lambda *_given: False)  # root may write anywhere
    assert writable(folder).parent == place.temporary_caches()
    assert f"'{folder}' cannot be written" in str(cache_problem())


def test_the_temporary_caches_are_this_users() -> None:
    assert place.temporary_caches().stat().st_mode & 0o777 == 0o700
    assert place.temporary_caches() == place.temporary_caches()
