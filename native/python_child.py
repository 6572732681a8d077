"""How Python processes are started: with nothing from the working folder.

The working folder may be a download, and Python imports modules from there for ``-c`` and ``-m``: a
file `pickle.py` in it would run. So every child gets ``-P`` and ``PYTHONSAFEPATH``, which its own
children inherit. Compiled WebAssembly, which wheels of tools keep for the user, is code, too: it is
kept elsewhere where another user may have written it, or where the user has no home folder.
"""

import contextlib
import os
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

from daedal.native.caches.place import temporary_caches, user_caches, user_home
from daedal.native.caches.trust import distrust

__all__ = [
    "SAFE_PATH",
    "changed_environment",
    "kept_variables",
    "python_command",
    "python_environment",
    "tool_places",
    "without_main",
]

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""What keeps Python from importing modules of the working folder."""

_WASM_CACHES = ("YoWASP", "wasmtime")


def python_command(*arguments: str) -> list[str]:
    """The command line of a child that runs this Python; to be used with `python_environment`."""
    return [sys.executable, "-P", *arguments]


def python_environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child that runs Python: that of this process, with `changes`."""
    return {**os.environ, **SAFE_PATH, **(changes or {})}


@contextlib.contextmanager
def changed_environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Within the block, this process and what libraries start have these variables."""
    with kept_variables(changes):
        os.environ.update(changes)
        yield


@contextlib.contextmanager
def kept_variables(names: Iterable[str]) -> Iterator[None]:
    """After the block, these variables are what they were before, whatever a library set."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_hiding = threading.Lock()
_hidden: list[ModuleType] = []
"""The main module, once for each block of `without_main` that is open."""


@contextlib.contextmanager
def without_main() -> Iterator[None]:
    """Within the block, a process that `multiprocessing` spawns does not import this one's main
    module: a user's script would run again in it. Blocks of several threads may overlap.

    Source: CPython, Lib/multiprocessing/spawn.py, get_preparation_data.
    """
    with _hiding:
        if not _hidden:
            _hidden.append(sys.modules["__main__"])
            sys.modules["__main__"] = ModuleType("__main__")
        else:
            _hidden.append(_hidden[0])
    try:
        yield
    finally:
        with _hiding:
            main = _hidden.pop()
            if not _hidden:
                sys.modules["__main__"] = main


def tool_places() -> dict[str, str]:
    """Variables that lead tools to folders which they can use, and which are this user's."""
    places = {} if user_home() is not None else {"HOME": _temporary("home")}
    caches = user_caches()
    if caches is None or any(
        distrust(caches.parent / name, others=stat.S_IWOTH) for name in _WASM_CACHES
    ):
        places["XDG_CACHE_HOME"] = _temporary("tools")
    return places


def _temporary(name: str) -> str:
    folder = Path(temporary_caches(), name)
    folder.mkdir(mode=0o700, exist_ok=True)
    return str(folder)
