"""`compiler_version`: names the code that an output of the compiler depends on."""

import hashlib
import time
from functools import lru_cache
from pathlib import Path

from daedal.compiler.tune.record import kit_version

__all__ = ["compiler_version", "sources_have_changed"]

_IMPORTED = time.time()


def _sources() -> list[Path]:
    """All of the compiler, and the definition of the machine that it compiles for."""
    here = Path(__file__).resolve().parent
    return sorted([*here.rglob("*.py"), *(here.parent / "isa").rglob("*.py")])


@lru_cache(maxsize=1)
def compiler_version() -> str:
    """The kit's version and a hash of the compiler's sources: cycles of others do not compare."""
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(path.read_bytes())
    return f"{kit_version()}+{digest.hexdigest()[:12]}"


def sources_have_changed() -> bool:
    """Whether a source was written after this process imported it, so that `compiler_version` may
    name other code than the one that runs."""
    return any(path.stat().st_mtime > _IMPORTED for path in _sources())
