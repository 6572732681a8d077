"""What takes long to make and never changes is made once, and read from a file later."""

import hashlib
import importlib.metadata
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

__all__ = ["kept"]

FOLDER = Path(__file__).resolve().parents[2] / ".daedal" / "cache" / "kept-values"

T = TypeVar("T")


def kept(make: Callable[[], T], *packages: str, folder: Path = FOLDER) -> T:
    """What `make`, a function of a module, returns: it depends on `packages`, and nothing else.

    Values may name files of the packages, so these lie at the same place, too.
    """
    found = [importlib.metadata.distribution(package) for package in packages]
    versions = [f"{one.name} {one.version} {one.locate_file('')}" for one in found]
    text = "\n".join([make.__module__, make.__qualname__, *versions])
    name = f"{make.__name__}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    path = folder / f"{name}.pickle"
    if path.is_file():
        value: T = pickle.loads(path.read_bytes())  # noqa: S301 (a file of our own)
        return value
    value = make()
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(pickle.dumps(value))
    part.replace(path)
    return value
