"""Folders of the simulator cache: sealed results, and scratch folders protected by lock files.

A sealed folder holds the content hash of each of its files: a damaged folder counts as missing, as
does one that another user may have written (`daedal.native.caches`): its library would run here. A
scratch folder belongs to one builder, which holds a lock on a file in it. If a builder was killed,
its lock is released, and the next builder removes the folder.
"""

import contextlib
import fcntl
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from daedal.common.errors import UserError
from daedal.native.caches.limits import Limit, make_space, mark_used
from daedal.native.caches.locks import alone
from daedal.native.caches.place import CACHES
from daedal.native.caches.trust import distrust, is_own_file, read_own

__all__ = ["content_key", "install", "is_whole", "scratch_folder", "seal"]

_HASHES = "hashes.json"
_SCRATCH = "building-"
_OWNER = "owner.lock"


def content_key(parts: Sequence[object]) -> str:
    """Part of the name of a folder whose files depend on `parts` (as JSON has them) alone."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def seal(folder: Path) -> None:
    """Record the hashes of all files of `folder`, which has no subfolders."""
    hashes = {path.name: _hash(path) for path in folder.iterdir()}
    (folder / _HASHES).write_text(json.dumps(hashes))
    for path in folder.iterdir():
        path.chmod(path.stat().st_mode & ~0o077)  # whatever the umask is
    folder.chmod(0o700)


def install(made: Path, final: Path, limit: Limit = CACHES["rtl"].limit) -> None:
    """Seal the folder `made` and move it to `final`, in place of a damaged one if there is one.

    Entries of the cache that were not used for longest are removed where it exceeds its limit. The
    caller holds a lock, and has checked that `final` is not whole.
    """
    seal(made)
    if final.is_symlink() or final.is_file():
        final.unlink()
    shutil.rmtree(final, ignore_errors=True)
    make_space(final.parent, limit, sum(path.stat().st_size for path in made.iterdir()))
    made.rename(final)


def is_whole(folder: Path, *names: str) -> bool:
    """Whether the files of a sealed folder match their hashes and include `names`; it then counts
    as used."""
    if distrust(folder.parent) is not None or distrust(folder) is not None or folder.is_symlink():
        return False
    try:
        hashes = json.loads(read_own(folder / _HASHES) or b"")
        whole = (
            isinstance(hashes, dict)
            and set(names) <= set(hashes)
            and all(_matches(folder, name, found) for name, found in hashes.items())
        )
    except (OSError, ValueError, RecursionError):
        return False
    if whole:
        mark_used(folder)
    return whole


def _matches(folder: Path, name: str, found: object) -> bool:
    return "/" not in name and is_own_file(folder / name) and _hash(folder / name) == found


@contextlib.contextmanager
def scratch_folder(cache_dir: Path) -> Iterator[Path]:
    """A new folder in `cache_dir` for one build; it is removed at the end, also after an error.

    Raises UserError where it cannot be created, or the disk is too full for what the block writes.
    """
    try:
        with contextlib.ExitStack() as stack:
            with alone(cache_dir / "scratch.lock"):
                _sweep(cache_dir)
                folder = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=cache_dir))
                stack.callback(shutil.rmtree, folder, ignore_errors=True)
                owner = stack.enter_context((folder / _OWNER).open("w"))
                fcntl.flock(owner, fcntl.LOCK_EX)
            yield folder
    except OSError as error:
        raise UserError(
            f"a simulator must be built in a folder that can be written, with room; "
            f"{str(cache_dir)!r} is none: {error.strerror or error}; make room, or work in another "
            "folder"
        ) from error


def _sweep(cache_dir: Path) -> None:
    """Remove scratch folders whose builder is gone; the caller holds the lock on creating them."""
    for folder in cache_dir.glob(f"{_SCRATCH}*"):
        try:
            with (folder / _OWNER).open("w") as owner:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            continue  # its builder is still running
        except OSError:  # it has no lock file, or is not a folder
            shutil.rmtree(folder, ignore_errors=True)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
