"""`OwnCode`: which machine code this user's own compiler made on this machine.

Machine code from a file may do anything, so it runs only if its digest is here. A digest is the
name of an empty file in a folder that only the user may open. Writers need no lock.
"""

import contextlib
import os
import re
import stat
from pathlib import Path

from daedal.native.cache import user_cache_dir

__all__ = ["OwnCode"]

_MAX_FILES = 4096


class OwnCode:
    """Digests in `folder`, by default in the user's cache.

    A folder that others may write counts as empty. One that cannot be written is no error: the code
    is then compiled again where it is read from a file.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder if folder is not None else user_cache_dir().parent / "own_code"

    def add(self, digest: str) -> None:
        """Record what was compiled here, by its SHA-256 in hexadecimal digits."""
        assert re.fullmatch("[0-9a-f]{64}", digest), digest
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._forget_oldest()
            (self._folder / digest).touch(mode=0o600)

    def __contains__(self, digest: str) -> bool:
        try:
            found = os.stat(self._folder)
            private = found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077
            return private and (self._folder / digest).is_file()
        except OSError:
            return False

    def _forget_oldest(self) -> None:
        files = sorted(self._folder.iterdir(), key=lambda file: file.stat().st_mtime)
        for file in files[: max(0, len(files) - _MAX_FILES + 1)]:
            file.unlink(missing_ok=True)
