"""`compiler_version` and `cycles_version`: name the code that programs and cycles depend on.

Input: the sources of this package. What has no meaning to Python does not count: comments,
docstrings and blank lines. So a version is the same for every version of Python, too.
"""

import hashlib
import re
import time
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from daedal.compiler.tune.record import kit_version

__all__ = [
    "compiler_version",
    "cycles_version",
    "digest_of_code",
    "digest_of_sources",
    "sources_have_changed",
]

_IMPORTED = time.time()
_DIGITS = 12

_COMPILER = ("artifact", "common", "compiler", "isa")
"""The compiler, and the definition of the machine that it compiles for."""
_CYCLES = (
    *_COMPILER,
    *("native", "sim/functional", "sim/timing", "sim/host_memory.py"),
    *("runtime/driver.py", "runtime/last_launch.py"),
)
"""What counts cycles, too: the cycle model, what runs it, and what places programs in memory."""

_LEXICAL = re.compile(
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'  # a string of several lines, perhaps a docstring
    r"|\"[^\"\\\n]*(?:\\.[^\"\\\n]*)*\"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'"  # strings
    r"|\#[^\n]*",
    re.DOTALL,
)
_BLANK = re.compile(r"[ \t]*\n(?:[ \t]*\n)*")
_SIGNATURE = re.compile(r"(?:(?:async def|def|class)\b|\)).*:")
_OPERAND = re.compile(r".*[\w)\]}](?<!\b(?:if|in|is|or))(?<!\b(?:and|not))(?<!\belse)")
"""Another operand right after it would be an error, even within brackets."""
_TEXT = re.compile(r"[A-Za-z_]\w*(?:: [^=]*)? = .*[\"']")
_COMMENT = re.compile(r"  #[^\"']*")


def _sources(places: Iterable[str]) -> list[Path]:
    """The Python files in folders of the package, and single files of it."""
    package = Path(__file__).resolve().parent.parent
    paths = [package / place for place in places]
    return sorted(
        source for path in paths for source in (path.rglob("*.py") if path.is_dir() else [path])
    )


def digest_of_code(text: str) -> bytes:
    """A hash of Python source that comments, docstrings and blank lines do not change."""
    strings: list[str] = []

    def kept(found: re.Match[str]) -> str:
        if found[0].startswith("#") or _is_docstring(found):
            return ""
        strings.append(found[0])
        return '"'

    code = _BLANK.sub("\n", f"{_LEXICAL.sub(kept, text)}\n").lstrip("\n")
    return hashlib.sha256("\0".join([code, *strings]).encode()).digest()


def _is_docstring(found: re.Match[str]) -> bool:
    """Whether a string stands alone where Python or a reader expects one that documents."""
    if not found[0].startswith('"""'):
        return False
    text, begin, end = found.string, found.start(), found.end()
    line = text.rfind("\n", 0, begin) + 1
    if text[line:begin].strip() or text[end : text.find("\n", end) % (len(text) + 1)].strip():
        return False
    before = text[text.rfind("\n", 0, line - 1) + 1 : line].strip()
    return not text[:line].strip() or _can_have_docstring(_COMMENT.sub("", before))


def _can_have_docstring(line: str) -> bool:
    """Whether a docstring may follow: after a signature, or the whole of an assignment.

    A string after any other line counts as code, which is always safe.
    """
    if _SIGNATURE.fullmatch(line) or _OPERAND.fullmatch(line):
        return True
    is_whole = all(line.count(a) == line.count(b) for a, b in ("()", "[]", "{}"))
    return is_whole and _TEXT.fullmatch(line) is not None


def digest_of_sources(paths: Iterable[Path]) -> str:
    """A hash of Python files, by `digest_of_code`, and of other files by their bytes."""
    digest = hashlib.sha256()
    for path in paths:
        data = path.read_bytes()
        is_code = path.suffix == ".py"
        digest.update(digest_of_code(data.decode()) if is_code else hashlib.sha256(data).digest())
    return digest.hexdigest()[:_DIGITS]


@lru_cache(maxsize=1)
def compiler_version() -> str:
    """The kit's version and a hash of the compiler: programs of others may differ."""
    return f"{kit_version()}+{digest_of_sources(_sources(_COMPILER))}"


@lru_cache(maxsize=1)
def cycles_version() -> str:
    """The kit's version and a hash of all that cycles depend on: those of others do not compare."""
    return f"{kit_version()}+{digest_of_sources(_sources(_CYCLES))}"


def sources_have_changed() -> bool:
    """Whether a source was written after this process imported it, so that `compiler_version` may
    name other code than the one that runs."""
    return any(path.stat().st_mtime > _IMPORTED for path in _sources(_COMPILER))
