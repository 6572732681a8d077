"""Where the caches of this user lie, and what each may take.

They are folders of ``$XDG_CACHE_HOME/daedal``, by default ``~/.cache/daedal``, never of the working
folder: what is in there may come from anywhere. A user without a home folder has none, nor has one
whose folders another user can write to; simulators are then built in a temporary folder.

Source: XDG Base Directory Specification 0.8.
"""

import functools
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from daedal.common.errors import UserError
from daedal.native.caches.limits import Limit
from daedal.native.caches.trust import distrust, make_own_folder

__all__ = ["CACHES", "CacheKind", "cache_folder", "user_caches", "user_home", "writable"]


@dataclass(frozen=True)
class CacheKind:
    """What a cache holds, in words, and what it may take."""

    title: str
    limit: Limit


CACHES = {
    "native": CacheKind("code of kernels", Limit(256 << 20, 4096)),
    "own_code": CacheKind("hashes of machine code made here", Limit(1 << 20, 4096)),
    "verified": CacheKind("hashes of programs that passed the verifier", Limit(1 << 20, 4096)),
    "segments": CacheKind("scheduled layers, linked programs", Limit(256 << 20)),
    "host_rates": CacheKind("measured rates of this host", Limit(1 << 20, 64)),
    "rtl": CacheKind("Verilog and simulators", Limit(4 << 30)),
    "synth": CacheKind("netlists and routed designs", Limit(2 << 30)),
}
"""Every cache by the name of its folder."""


def user_home() -> Path | None:
    """Folder of this user; None where neither ``HOME`` nor the system's list of users has one."""
    home = os.path.expanduser("~")
    return Path(home) if os.path.isabs(home) else None


def user_caches() -> Path | None:
    """Folder of all caches of this user, which need not exist; None for a user without a home."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):
        return Path(given) / "daedal"
    home = user_home()
    return None if home is None else home / ".cache" / "daedal"


def cache_folder(name: str) -> Path:
    """Folder of a cache in `CACHES`, which need not exist.

    A temporary one, which ends with this process, for a user who has none.
    """
    assert name in CACHES, name
    base = user_caches()
    if base is None or distrust(base) or distrust(base / name):
        return temporary_caches() / name
    return base / name


def writable(folder: Path) -> Path:
    """`folder`, created where it is missing; in place of a cache of this user that cannot be
    written, a temporary one.

    Raises
    ------
    UserError
        Another folder cannot be written, or others can write to it.
    """
    problem = distrust(folder)
    if problem is None:
        try:
            make_own_folder(folder)
            if os.access(folder, os.W_OK | os.X_OK):
                return folder
            problem = "it cannot be written"
        except OSError as error:
            problem = error.strerror
    if folder.parent == user_caches():
        folder = temporary_caches() / folder.name
        make_own_folder(folder)
        return folder
    raise UserError(
        f"a cache must be a folder that this user alone can write; {str(folder)!r} is none: "
        f"{problem}; choose another folder"
    )


def temporary_caches() -> Path:
    """A folder that ends with this process."""
    return Path(_temporary().name)


@functools.cache
def _temporary() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="daedal-caches-", ignore_cleanup_errors=True)
