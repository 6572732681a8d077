"""`ChildProcess`: a child that may crash, hang or be killed, and its parent's side of the pipe."""

import multiprocessing
import os
import signal
import subprocess
import tempfile
from typing import IO, TYPE_CHECKING

from daedal.native.python_child import python_command, python_environment

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["PROGRAM", "READY", "ChildDiedError", "ChildProcess", "ChildTimeoutError"]

PROGRAM = ("-m", "daedal.tuning.child")
"""Arguments of Python that run a child."""

READY = "ready"
"""The first message of a child."""

START_SECONDS = 300.0
"""How long a child may take to import Daedal, on the slowest machine."""
_LAST_BYTES = 2000
_EXIT_SECONDS = 10.0
"""How long a process may take to end after it has closed its end of the pipe."""


class ChildDiedError(Exception):
    """The child ended before it answered; the message says how."""


class ChildTimeoutError(Exception):
    """The child did not answer in time, and was killed."""


class ChildProcess:
    """A process with `daedal.tuning.child` in the given role, started when it is first needed.

    After `ChildDiedError` and `ChildTimeoutError` the next message starts a new one. Objects go
    through a pipe between processes of one program, so they are pickled.

    Parameters
    ----------
    role : ``build``, ``run`` or ``time``.
    memory_bytes : address space that the process may have.
    """

    def __init__(self, role: str, memory_bytes: int) -> None:
        self._command = python_command(*PROGRAM, role)
        self._memory_bytes = memory_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection[object, object] | None = None
        self._errors: IO[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Of the process; None while there is none."""
        return None if self._process is None else self._process.pid

    def send(self, message: object) -> None:
        """Send an object. Raises ChildDiedError."""
        try:
            self._running().send(message)
        except OSError:
            raise self._died() from None

    def send_pickled(self, message: bytes) -> None:
        """Send what `receive_pickled` gave, of another child. Raises ChildDiedError."""
        try:
            self._running().send_bytes(message)
        except OSError:
            raise self._died() from None

    def receive(self, seconds: float) -> object:
        """The next object. Raises ChildDiedError, or ChildTimeoutError after `seconds`."""
        self._wait(seconds)
        try:
            return self._running().recv()
        except (EOFError, OSError):
            raise self._died() from None

    def receive_pickled(self, seconds: float) -> bytes:
        """As `receive`, without unpickling it."""
        self._wait(seconds)
        try:
            return self._running().recv_bytes()
        except (EOFError, OSError):
            raise self._died() from None

    def close(self) -> None:
        """End the process, if there is one."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._errors is not None:
            self._errors.close()
        self._process = self._connection = self._errors = None

    def _running(self) -> "Connection[object, object]":
        if self._connection is None:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (`close` closes it)
            ours, theirs = multiprocessing.Pipe()
            descriptor = theirs.fileno()
            # Its own session: an interrupt from the keyboard reaches the parent alone.
            self._process = subprocess.Popen(
                [*self._command, str(descriptor), str(self._memory_bytes)],
                pass_fds=[descriptor],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                start_new_session=True,
                env=python_environment(),
            )
            theirs.close()
            self._connection = ours
            ready = self.receive(START_SECONDS)
            assert ready == READY
        return self._connection

    def _wait(self, seconds: float) -> None:
        try:
            answered = self._running().poll(max(seconds, 0.0))
        except OSError:
            raise self._died() from None
        if not answered:
            self.close()
            raise ChildTimeoutError

    def _died(self) -> ChildDiedError:
        """The error for a child that has closed its end of the pipe."""
        assert self._process is not None
        try:
            status = self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            status = -signal.SIGKILL  # by `close`
        lines = self._last_words()
        self.close()
        if status < 0:
            return ChildDiedError(f"its process was ended by {signal.Signals(-status).name}")
        return ChildDiedError(f"its process ended with status {status}{lines}")

    def _last_words(self) -> str:
        """The last line that the process wrote to its standard error, for a message."""
        assert self._errors is not None
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _LAST_BYTES))
        lines = self._errors.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {last}" if last else ""
