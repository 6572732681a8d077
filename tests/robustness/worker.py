"""A process that reads numbers of cases and says what became of each, one JSON line each.

A case may take only so much memory and processor time. The worker treats warnings as errors, but
for those that say what is wrong with a model, and reports every file that a case opens outside
Python's own and every program that it starts: a file from outside must cause neither. The processes
that share the compilation of large models are ours.
"""

import json
import os
import resource
import sys
import sysconfig
import traceback
import warnings
from pathlib import Path
from typing import Any

from daedal.common.errors import DaedalError, ModelWarning
from daedal.native.caches.place import user_caches
from tests.robustness.checks import CHECKS

__all__ = ["main"]

MEMORY_BYTES = 4 << 30
PROCESSOR_SECONDS = 60
"""The largest layer that the compiler lets through takes 20; most cases take less than 1."""

MAX_SENTENCE_LENGTH = 4_000

_ROOT = Path(__file__).resolve().parents[2]
_CACHE = str(user_caches())
"""Compiled code is kept there."""
_OWN = (*sysconfig.get_paths().values(), *filter(None, sys.path), str(_ROOT))
_EVENTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect")
_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.symlink")
_COMPILER = [sys.executable, "-P", "-m", "daedal.native.object_compiler"]
"""What compiles a part of a large model; its errors go to the null device."""


class _Watch:
    """Collects what a case does to the system."""

    def __init__(self) -> None:
        self.events: list[str] = []

    @staticmethod
    def _is_own(path: str) -> bool:
        """Whether it is code that is loaded, or a shipped variant: in the repository nothing else
        may be read."""
        if path.startswith(_CACHE) or path == os.devnull:
            return True  # even if the cache is in the repository
        if path.startswith(str(_ROOT)) and not path.startswith(sys.prefix):
            is_variant = Path(path).parent == _ROOT / "variants"  # reasons name others
            return is_variant or path.endswith((".py", ".pyc")) or "__pycache__" in path
        return path.startswith(_OWN)

    @staticmethod
    def _is_cache(path: str) -> bool:
        """Whether it lies in the cache, or is a folder that holds the cache."""
        return path.startswith(_CACHE) or _CACHE.startswith(f"{path}/")

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        first = arguments[0] if arguments else ""
        if event == "subprocess.Popen" and arguments[1] == _COMPILER:
            return
        if event == "open" and not isinstance(first, int) and not self._is_own(str(first)):
            self.events.append(f"open {first!r}")
        elif event in _EVENTS or (event in _CHANGES and not self._is_cache(str(first))):
            self.events.append(f"{event} {arguments!r}")


def _fault(error: BaseException) -> str:
    """What is wrong with an error, empty for one clear sentence."""
    message = str(error)
    if not isinstance(error, DaedalError):
        return "".join(traceback.format_exception(error))
    if not message.isprintable() or len(message) > MAX_SENTENCE_LENGTH:
        return f"the message is not one printable sentence: {message[:500]!r}"
    return ""


def _answer(kind: str, number: int, watch: _Watch) -> dict[str, str]:
    make, check = CHECKS[kind]
    case = make(number)
    watch.events.clear()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(usage.ru_utime + usage.ru_stime) + PROCESSOR_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    try:
        check(case)
        outcome, fault = "done", ""
    except Exception as error:
        outcome, fault = "refused", _fault(error)
    fault = fault or ", ".join(watch.events)
    if fault:
        outcome = "failed"
    return {"description": case.description, "outcome": outcome, "fault": fault}


def main() -> None:
    """Answer until standard input ends."""
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", ModelWarning)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    watch = _Watch()
    sys.addaudithook(watch)
    for line in sys.stdin:
        kind, number = line.split()
        sys.stdout.write(json.dumps(_answer(kind, int(number), watch)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
