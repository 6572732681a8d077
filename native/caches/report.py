"""What the caches of this user hold, and which cannot be used, for the command line to show."""

import os
from dataclasses import dataclass
from pathlib import Path

from daedal.native.caches.limits import entries
from daedal.native.caches.place import CACHES, user_caches
from daedal.native.caches.trust import distrust

__all__ = ["CacheRecord", "cache_problem", "cache_records"]

_REMEDY = "set XDG_CACHE_HOME to a folder of your own"


@dataclass(frozen=True)
class CacheRecord:
    """One cache: what it holds now and may hold, and why it is not used, if it is not."""

    name: str
    title: str
    folder: Path | None
    num_entries: int
    num_bytes: int
    limit_bytes: int
    problem: str | None


def cache_records() -> list[CacheRecord]:
    """A record of each cache."""
    base = user_caches()
    return [
        _record(name, None if base is None else base / name, _problem_of(base, name))
        for name in CACHES
    ]


def cache_problem() -> str | None:
    """A sentence about the caches that cannot be used; None where all can."""
    base = user_caches()
    if base is None:
        return f"nothing is kept for the next run: this user has no home folder; {_REMEDY}"
    problems = {problem for name in CACHES if (problem := _problem_of(base, name)) is not None}
    if not problems:
        return None
    return f"not all is kept for the next run: {'; '.join(sorted(problems))}; {_REMEDY}"


def _problem_of(base: Path | None, name: str) -> str | None:
    """Why a cache is not used, or not written."""
    if base is None:
        return "there is no home folder"
    for folder in (base, base / name):
        problem = distrust(folder)
        if problem is not None:
            return f"{str(folder)!r} is not used, as {problem}"
    nearest = base / name
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        return f"{str(nearest)!r} cannot be written"
    return None


def _record(name: str, folder: Path | None, problem: str | None) -> CacheRecord:
    found = [] if folder is None else entries(folder)
    return CacheRecord(
        name=name,
        title=CACHES[name].title,
        folder=folder,
        num_entries=len(found),
        num_bytes=sum(entry.num_bytes for entry in found),
        limit_bytes=CACHES[name].limit.num_bytes,
        problem=problem,
    )
