"""`ObjectCompiler`: LLVM texts to object code, in child processes where there are many.

llvmlite takes a lock for each call, so one process keeps one processor busy. Children compile texts
while this process makes the next. What a child cannot do, this process does.
"""

import contextlib
import os
import signal
import struct
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import IO

from daedal.native.bodies.tile_products import has_tile_products
from daedal.native.cache import ObjectCache
from daedal.native.codegen import compile_text, compile_vectors
from daedal.native.levels import AMX_LEVEL, VNNI_LEVEL, level_cpu
from daedal.native.python_child import python_command, python_environment

__all__ = ["ObjectCompiler", "PendingObject"]

LEAST_TEXTS = 24
"""Of fewer, this process makes object code in about the time that a child takes to start."""
MOST_CHILDREN = 8

_LENGTH = struct.Struct("<Q")
_DONE, _FAILED = b"\x01", b"\x00"


class PendingObject:
    """Object code that somebody compiles, at the latest who asks for it.

    Parameters
    ----------
    text : in LLVM's form.
    tiled : whether its loops are tiled and vectorized already (`compile_vectors`).
    level : of processors.
    """

    def __init__(self, text: str, level: str, cache: ObjectCache, *, tiled: bool) -> None:
        self.text, self.level, self.tiled = text, level, tiled
        self.future: Future[bytes] | None = None
        self._cache = cache
        self._found: bytes | None = None

    @property
    def is_known(self) -> bool:
        """Whether nobody need compile it."""
        if self._found is None:
            self._found = self._cache.find(self._sources)
        return self._found is not None

    def result(self) -> bytes:
        """The object code. Raises RuntimeError if LLVM rejects the text."""
        if not self.is_known:
            made = compile_here(self) if self.future is None else self.future.result()
            self._cache.put(self._sources, made)
            self._found = made
        assert self._found is not None
        return self._found

    @property
    def _sources(self) -> str:
        return f"{self.level}\n{self.text}"


def compile_here(item: PendingObject) -> bytes:
    """Object code, made by this process."""
    compiled = compile_vectors if item.tiled else compile_text
    return compiled(item.text, level_cpu(item.level))


class ObjectCompiler:
    """Compiles many texts side by side; to be used in a ``with`` block.

    Parameters
    ----------
    cache : of object code.
    children : at most so many; None: as many as this process may use processors, if several.
    expected : about how many texts will come: if there are many, children start with the first.
    """

    def __init__(
        self, cache: ObjectCache, children: int | None = None, *, expected: int = 0
    ) -> None:
        self._cache = cache
        processors = _processors()
        self._count = (processors if processors > 1 else 0) if children is None else children
        self._least = 1 if expected >= LEAST_TEXTS else LEAST_TEXTS
        self._waiting: list[PendingObject] = []
        self._items: dict[tuple[str, str, bool], PendingObject] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._own = threading.local()
        self._children: list[_Child] = []

    def __enter__(self) -> "ObjectCompiler":
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        for child in self._children:
            child.close()

    def submit(self, text: str, level: str, *, tiled: bool) -> PendingObject:
        """Have a text compiled for a level of processors, each once.

        Code without products in tile registers is the same with AMX as with VNNI.
        """
        if level == AMX_LEVEL and not has_tile_products(text):
            level = VNNI_LEVEL
        key = text, level, tiled
        if key in self._items:
            return self._items[key]
        self._items[key] = item = PendingObject(text, level, self._cache, tiled=tiled)
        if self._count and not item.is_known:
            self._waiting.append(item)
        if self._pool is None and len(self._waiting) >= self._least:
            self._pool = ThreadPoolExecutor(min(self._count, MOST_CHILDREN))
        if self._pool is not None:
            for waiting in self._waiting:
                waiting.future = self._pool.submit(self._compiled, waiting)
            self._waiting.clear()
        return item

    def _compiled(self, item: PendingObject) -> bytes:
        """Object code, made by the child of this thread."""
        child: _Child | None = getattr(self._own, "child", None)
        try:
            if child is None:
                self._own.child = child = _Child()
                self._children.append(child)
            made = child.compiled(item)
        except (OSError, EOFError):
            made = None
        return compile_here(item) if made is None else made


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Child:
    """A process that compiles one text after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            python_command("-m", __name__),
            env=python_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def compiled(self, item: PendingObject) -> bytes | None:
        """The object code, or None where LLVM rejects the text. Raises OSError or EOFError where
        the process has ended."""
        given, taken = self._process.stdin, self._process.stdout
        assert given is not None and taken is not None
        given.write(_DONE if item.tiled else _FAILED)
        for part in (item.level, item.text):
            _send(given, part.encode())
        given.flush()
        status = _exactly(taken, 1)
        data = _receive(taken)
        return data if status == _DONE else None

    def close(self) -> None:
        """End it."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()
        self._process.wait()


def _send(stream: IO[bytes], data: bytes) -> None:
    stream.write(_LENGTH.pack(len(data)) + data)


def _receive(stream: IO[bytes]) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    return _exactly(stream, length)


def _exactly(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise EOFError("the other process has ended")
    return data


def main() -> None:
    """The child: requests on standard input, object code on standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent closes the pipes
    given, taken = sys.stdin.buffer, sys.stdout.buffer
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            tiled = _exactly(given, 1) == _DONE
            level, text = (_receive(given).decode() for _ in range(2))
            try:
                status = _DONE
                data = (compile_vectors if tiled else compile_text)(text, level_cpu(level))
            except RuntimeError as error:
                status, data = _FAILED, str(error).encode()
            taken.write(status)
            _send(taken, data)
            taken.flush()


if __name__ == "__main__":
    main()
