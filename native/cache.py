"""Cache of object code on disk: content-addressed, written atomically, checked when read.

The file name is a hash of the sources, the processor and the versions of LLVM and of this package.
The file holds the SHA-256 of the code and the code: a damaged file counts as missing and is written
again. `daedal.native.caches` says which files are trusted, and how many there may be.
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from daedal.native.caches.kept_files import KeptFiles, sealed, unsealed
from daedal.native.caches.limits import Limit
from daedal.native.caches.place import CACHES, cache_folder
from daedal.native.cpu import host_cpu

__all__ = ["NoCache", "ObjectCache"]


@lru_cache(maxsize=1)
def _toolchain() -> str:
    """Everything besides the sources that the code depends on: processor, LLVM, this package."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    cpu = host_cpu()
    return "\n".join(
        (cpu.triple, cpu.name, cpu.feature_text, llvmlite.__version__,
         str(llvm.llvm_version_info), digest.hexdigest())
    )  # fmt: skip


class ObjectCache:
    """Object code in `folder`, with the text of its sources as the key.

    A folder that is not writable costs time but is no error: each process then builds the code.
    """

    def __init__(self, folder: Path | None = None, limit: Limit = CACHES["native"].limit) -> None:
        self._files = KeptFiles(cache_folder("native") if folder is None else folder, limit)

    def path(self, sources: str) -> Path:
        """Path of the object code for `sources`."""
        key = hashlib.sha256(f"{_toolchain()}\n{sources}".encode()).hexdigest()
        return self._files.folder / f"{key[:40]}.o"

    def get(self, sources: str, build: Callable[[], bytes]) -> bytes:
        """The object code of `sources`; `build` creates it if missing or damaged."""
        found = self.find(sources)
        if found is not None:
            return found
        data = build()
        self.put(sources, data)
        return data

    def find(self, sources: str) -> bytes | None:
        """The object code of `sources`, or None where it is missing or damaged."""
        return unsealed(self._files.read(self.path(sources).name))

    def put(self, sources: str, data: bytes) -> None:
        """Keep the object code of `sources`."""
        self._files.write(self.path(sources).name, sealed(data))


class NoCache(ObjectCache):
    """Builds anew each time, and keeps nothing."""

    def find(self, sources: str) -> bytes | None:
        """Nothing."""

    def put(self, sources: str, data: bytes) -> None:
        """Keep nothing."""
