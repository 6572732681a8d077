"""`SegmentStore`: segments on disk, so that a layer is scheduled once for all networks.

It also keeps linked programs without their constants, so that a network that is compiled again, or
with other weights, is not linked again.

The name of a file is a hash of everything that its content depends on, the compiler's own sources
included. The file holds the SHA-256 of its content: a damaged or shortened one counts as
missing and is written again. Files are replaced atomically, so readers and writers need no lock.
They take at most `limit_bytes`: beyond that, those that were not used for longest are removed.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from daedal.compiler.codegen.segment import Segment
from daedal.compiler.codegen.segment_file import segment_from, segment_to_bytes
from daedal.compiler.link.linked_code import LinkedCode
from daedal.compiler.link.linked_file import linked_from, linked_to_bytes
from daedal.compiler.version import compiler_version, sources_have_changed
from daedal.isa.errors import ArtifactError, UserError
from daedal.isa.files import write_atomically
from daedal.native.cache import user_cache_dir

__all__ = ["SegmentStore", "default_store"]

FORMAT = "daedal segment 3"
LINKED_FORMAT = "daedal linked program 1"
LIMIT_BYTES = 256 << 20
_DIGEST_BYTES = hashlib.sha256().digest_size
_KEPT = 0.75
"""Part of the limit that is left after files were removed, so that this happens rarely."""

T = TypeVar("T")


class SegmentStore:
    """Segments in `folder`, which is created with the first one.

    A folder that is not writable costs time but is no error: the code is then built every time.
    """

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes
        self._stored_bytes: int | None = None
        """What the files take; None before the first one was written."""

    def path(self, key: str) -> Path:
        """Path of the segment for `key`: whatever it depends on, besides the compiler."""
        return self._path(FORMAT, key, "segment")

    def linked_path(self, key: str) -> Path:
        """Path of the linked program for `key`: whatever it depends on, besides the compiler."""
        return self._path(LINKED_FORMAT, key, "program")

    def get(self, key: str, build: Callable[[], Segment]) -> Segment:
        """The segment for `key`; `build` makes it where it is missing or damaged.

        Raises what `build` raises.
        """
        return self._get(self.path(key), build, segment_from, segment_to_bytes)

    def linked(self, key: str, build: Callable[[], LinkedCode]) -> LinkedCode:
        """The linked program for `key`; `build` makes it where it is missing or damaged.

        Raises what `build` raises.
        """
        return self._get(self.linked_path(key), build, linked_from, linked_to_bytes)

    def _path(self, form: str, key: str, suffix: str) -> Path:
        text = "\n".join((form, compiler_version(), key))
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:40]}.{suffix}"

    def _get(
        self,
        path: Path,
        build: Callable[[], T],
        read: Callable[[bytes], T],
        write: Callable[[T], bytes],
    ) -> T:
        found = _read(path, read)
        if found is not None:
            return found
        made = build()
        data = write(made)
        content = hashlib.sha256(data).digest() + data
        if len(content) <= self._limit_bytes:
            with contextlib.suppress(OSError, UserError):
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._make_space(len(content))
                write_atomically(path, content)
        return made

    def _make_space(self, size: int) -> None:
        """Remove files until another one of `size` bytes fits."""
        if self._stored_bytes is None:
            self._stored_bytes = sum(used for _, used, _ in self._files())
        self._stored_bytes += size
        if self._stored_bytes <= self._limit_bytes:
            return
        files = sorted(self._files())
        # Other processes write, too.
        self._stored_bytes = size + sum(used for _, used, _ in files)
        for _, used, path in files:
            if self._stored_bytes <= max(size, self._limit_bytes * _KEPT):
                break
            path.unlink(missing_ok=True)
            self._stored_bytes -= used

    def _files(self) -> list[tuple[float, int, Path]]:
        """When each file was last used, its bytes, its path."""
        found = []
        for path in (*self._folder.glob("*.segment"), *self._folder.glob("*.program")):
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        return found


def default_store() -> SegmentStore | None:
    """The user's store, ``~/.cache/daedal/segments`` by default.

    None while the compiler's sources are being edited: its hash would name other code.
    """
    if sources_have_changed():
        return None
    return SegmentStore(user_cache_dir().with_name("segments"))


def _read(path: Path, read: Callable[[bytes], T]) -> T | None:
    try:
        content = path.read_bytes()
        digest, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if hashlib.sha256(data).digest() != digest:
            return None
        found = read(data)
    except (OSError, ArtifactError):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return found
