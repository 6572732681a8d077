"""`SegmentStore`: segments on disk, so that a layer is scheduled once for all networks.

It also keeps linked programs without their constants, so that a network that is compiled again, or
with other weights, is not linked again.

The name of a file is a hash of everything that its content depends on, the compiler's own sources
included. The file holds the SHA-256 of its content: a damaged or shortened one counts as
missing and is written again. `daedal.native.caches` says which files are trusted, and how many
there may be.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from daedal.common.errors import ArtifactError
from daedal.compiler.codegen.segment import Segment
from daedal.compiler.codegen.segment_file import segment_from, segment_to_bytes
from daedal.compiler.link.linked_code import LinkedCode
from daedal.compiler.link.linked_file import linked_from, linked_to_bytes
from daedal.compiler.version import compiler_version, sources_have_changed
from daedal.native.caches.kept_files import KeptFiles, sealed, unsealed
from daedal.native.caches.limits import Limit
from daedal.native.caches.place import CACHES, cache_folder

__all__ = ["SegmentStore", "default_store"]

FORMAT = "daedal segment 3"
LINKED_FORMAT = "daedal linked program 1"

T = TypeVar("T")


class SegmentStore:
    """Segments in `folder`, which is created with the first one.

    A folder that is not writable costs time but is no error: the code is then built every time.
    """

    def __init__(self, folder: Path, limit_bytes: int = CACHES["segments"].limit.num_bytes) -> None:
        self._files = KeptFiles(folder, Limit(limit_bytes))

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
        return self._files.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:40]}.{suffix}"

    def _get(
        self,
        path: Path,
        build: Callable[[], T],
        read: Callable[[bytes], T],
        write: Callable[[T], bytes],
    ) -> T:
        found = _read(unsealed(self._files.read(path.name)), read)
        if found is None:
            found = build()
            self._files.write(path.name, sealed(write(found)))
        return found


def default_store() -> SegmentStore | None:
    """The user's store, ``~/.cache/daedal/segments`` by default.

    None while the compiler's sources are being edited: its hash would name other code.
    """
    if sources_have_changed():
        return None
    return SegmentStore(cache_folder("segments"))


def _read(data: bytes | None, read: Callable[[bytes], T]) -> T | None:
    try:
        return None if data is None else read(data)
    except ArtifactError:
        return None
