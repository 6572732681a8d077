"""`OwnCode`: which machine code this user's own compiler made on this machine.

Machine code from a file may do anything, so it runs only if its digest is here. A digest is the
name of an empty file in a cache, to which nobody else can write (`daedal.native.caches`).
"""

import re
from pathlib import Path

from daedal.native.caches.kept_files import KeptFiles
from daedal.native.caches.limits import Limit
from daedal.native.caches.place import CACHES, cache_folder

__all__ = ["OwnCode"]


class OwnCode:
    """Digests in `folder`, by default in the user's cache.

    A folder that others may write counts as empty. One that cannot be written is no error: the code
    is then compiled again where it is read from a file.
    """

    def __init__(self, folder: Path | None = None, limit: Limit = CACHES["own_code"].limit) -> None:
        self._files = KeptFiles(cache_folder("own_code") if folder is None else folder, limit)

    def add(self, digest: str) -> None:
        """Record what was compiled here, by its SHA-256 in hexadecimal digits."""
        assert re.fullmatch("[0-9a-f]{64}", digest), digest
        self._files.write(digest, b"")

    def __contains__(self, digest: str) -> bool:
        return self._files.read(digest) is not None
