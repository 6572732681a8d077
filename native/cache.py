"""Cache of object code on disk: content-addressed, written atomically, checked when read.

The file name is a hash of the sources, the processor and the versions of LLVM and of this package.
The file holds the SHA-256 of the code and the code: a damaged file counts as missing and is written
again. Readers and writers need no lock, because files are replaced atomically; if two processes
build the same code, the later one replaces the file by equal bytes.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from daedal.isa.errors import UserError
from daedal.isa.files import write_atomically
from daedal.native.cpu import host_cpu

__all__ = ["NoCache", "ObjectCache", "user_cache_dir"]

_MAX_FILES = 4096
_SWEPT = 8
"""Of 256 new files, how many make room: listing the folder for each one would take its time."""
_DIGEST_BYTES = hashlib.sha256().digest_size


def user_cache_dir() -> Path:
    """Folder of the user's cached object code, ``~/.cache/daedal/native`` by default.

    Source: XDG Base Directory Specification 0.8.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    return base / "daedal" / "native"


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

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder if folder is not None else user_cache_dir()

    def path(self, sources: str) -> Path:
        """Path of the object code for `sources`."""
        key = hashlib.sha256(f"{_toolchain()}\n{sources}".encode()).hexdigest()
        return self._folder / f"{key[:40]}.o"

    def get(self, sources: str, build: Callable[[], bytes]) -> bytes:
        """The object code of `sources`; `build` creates it if missing or damaged."""
        path = self.path(sources)
        found = _read(path)
        if found is not None:
            return found
        data = build()
        with contextlib.suppress(OSError, UserError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if int(path.stem[:2], 16) < _SWEPT:
                self._forget_oldest()
            write_atomically(path, hashlib.sha256(data).digest() + data)
        return data

    def _forget_oldest(self) -> None:
        files = sorted(self._folder.glob("*.o"), key=lambda file: file.stat().st_mtime)
        for file in files[: max(0, len(files) - _MAX_FILES + 1)]:
            file.unlink(missing_ok=True)


class NoCache(ObjectCache):
    """Builds anew each time, and keeps nothing."""

    def get(self, sources: str, build: Callable[[], bytes]) -> bytes:
        """What `build` gives."""
        return build()


def _read(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return data if hashlib.sha256(data).digest() == digest else None
