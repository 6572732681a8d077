"""`KeptFiles`: files of a cache, by names that are hashes of all that a file depends on."""

import contextlib
import hashlib
from pathlib import Path

from daedal.common.errors import UserError
from daedal.common.files import write_atomically
from daedal.native.caches.limits import Limit, make_space, mark_used
from daedal.native.caches.trust import distrust, make_own_folder, read_own

__all__ = ["KeptFiles", "sealed", "unsealed"]

_DIGEST_BYTES = hashlib.sha256().digest_size


class KeptFiles:
    """Files in `folder`, which is created with the first one, within `limit`.

    Readers and writers need no lock: files are replaced atomically, and if two processes make the
    same file, the later one replaces it by equal bytes. Other users' files count as missing.
    """

    def __init__(self, folder: Path, limit: Limit) -> None:
        self.folder = folder
        self._limit = limit
        self._kept: tuple[int, int] | None = None
        """Bytes and number of the files; None before the first one was written."""

    def read(self, name: str) -> bytes | None:
        """The content of a file, which counts as used; None where there is none."""
        if distrust(self.folder) is not None:
            return None
        path = self.folder / name
        content = read_own(path)
        if content is not None:
            mark_used(path)
        return content

    def write(self, name: str, content: bytes) -> None:
        """Keep a file; without effect where it cannot be written, or exceeds the limit alone."""
        if len(content) > self._limit.num_bytes or distrust(self.folder) is not None:
            return
        with contextlib.suppress(OSError, UserError):
            make_own_folder(self.folder)
            self._make_space(len(content))
            write_atomically(self.folder / name, content, private=True)

    def _make_space(self, size: int) -> None:
        """Remove files until another one of `size` bytes fits."""
        kept_bytes, kept = self._kept or (self._limit.num_bytes, 0)
        full = kept_bytes + size > self._limit.num_bytes or kept >= self._limit.num_entries
        if full:  # or not known; other processes write, too
            kept_bytes, kept = make_space(self.folder, self._limit, size)
        self._kept = kept_bytes + size, kept + 1


def sealed(data: bytes) -> bytes:
    """The content of a file for `data`: its SHA-256, and the data."""
    return hashlib.sha256(data).digest() + data


def unsealed(content: bytes | None) -> bytes | None:
    """What `sealed` was given; None where the content is missing or damaged."""
    if content is None:
        return None
    digest, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return data if hashlib.sha256(data).digest() == digest else None
