"""Cache of benchmark results on disk; the key covers everything a result depends on.

Input: what an answer depends on, and a function that makes it. Output: the answer as JSON has it.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from daedal.common.files import make_folder, write_atomically

__all__ = ["CYCLES", "kept", "sources_digest"]

ROOT = Path(__file__).resolve().parents[1]
CYCLES = ROOT / ".daedal" / "cycles"
"""Cycles of benches that take long to count."""


def kept(
    folder: Path, name: str, parts: Sequence[str], make: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """The answer to `parts` in `folder`, made and written there where it is missing.

    `name` begins the file's name, for who looks into the folder.
    """
    key = hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()
    path = folder / f"{name}-{key[:24]}.json"
    if not path.is_file():
        made = make()
        make_folder(folder)
        write_atomically(path, json.dumps(made, indent=1) + "\n")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@cache
def sources_digest(sources: tuple[str, ...], packages: tuple[str, ...]) -> str:
    """A hash of files, and of all files in folders, of the repository, and of package versions."""
    digest = hashlib.sha256()
    for source in sources:
        path = ROOT / source
        files = sorted(item for item in path.rglob("*") if item.suffix in _SOURCE_SUFFIXES)
        for file in files if path.is_dir() else [path]:
            digest.update(file.relative_to(ROOT).as_posix().encode())
            digest.update(file.read_bytes())
    for package in packages:
        digest.update(f"{package} {importlib.metadata.version(package)}".encode())
    return digest.hexdigest()


_SOURCE_SUFFIXES = {".py", ".v", ".sv", ".cpp", ".h"}
