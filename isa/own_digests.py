"""`OwnDigests`: what this user has checked on this machine, by digest.

A digest is the name of an empty file in a folder that only the user may open, so nobody else can
add one. Writers need no lock.
"""

import contextlib
import os
import re
import stat
from pathlib import Path

__all__ = ["OwnDigests", "user_cache_root"]

MAX_FILES = 4096


def user_cache_root() -> Path | None:
    """Folder of all that Daedal keeps for the user, ``~/.cache/daedal`` by default; None for a user
    without a home. `daedal.native.caches` has the other caches in it.

    Source: XDG Base Directory Specification 0.8.
    """
    given, home = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~")
    if os.path.isabs(given):
        return Path(given) / "daedal"
    return Path(home) / ".cache" / "daedal" if os.path.isabs(home) else None


class OwnDigests:
    """SHA-256 digests in `folder`; the oldest are forgotten.

    A folder that others may open counts as empty. One that cannot be written is no error: nothing
    is then remembered. Without a folder (None) nothing is, either.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def add(self, digest: str) -> None:
        """Remember a digest, in hexadecimal digits."""
        assert re.fullmatch("[0-9a-f]{64}", digest), digest
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            self._folder.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            for folder in (self._folder.parent, self._folder):
                folder.mkdir(exist_ok=True, mode=0o700)
            self._forget_oldest(self._folder)
            (self._folder / digest).touch(mode=0o600)

    def __contains__(self, digest: str) -> bool:
        if self._folder is None:
            return False
        try:
            found = os.lstat(self._folder)
            private = found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077
            return private and stat.S_ISDIR(found.st_mode) and (self._folder / digest).is_file()
        except OSError:
            return False

    @staticmethod
    def _forget_oldest(folder: Path) -> None:
        files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)
        for file in files[: max(0, len(files) - MAX_FILES + 1)]:
            file.unlink(missing_ok=True)
