"""Ends simulators and build tools when the process that started them is gone.

Each runs in its own session, so that an interrupted run can end it with all its children. For the
same reason nothing else would end it when its parent is killed, and a simulation may take hours. A
simulator runs Python and watches its parent itself. A build tool gets a companion process, this
file run as a program::

    python orphan.py PARENT COMMAND...

It leads the session, runs the command in it, and exits with the command's status.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

__all__ = ["companion", "end_with_parent"]

_LOOK_SECONDS = 1.0
_EXIT_STATUS = 3


def end_with_parent(parent: int | None = None) -> None:
    """Check once a second that the parent is alive, in a separate thread.

    The simulation itself is unaffected, in its cycles and in its speed. A process whose parent may
    be gone already is given its number.
    """
    # The simulator's main thread runs outside Python, where no exception would reach it.
    _start_watch(parent or os.getppid(), lambda: os._exit(_EXIT_STATUS))


def companion(command: Sequence[str]) -> list[str]:
    """The command line that runs `command` until this process ends, with the companion as leader of
    the session."""
    # -S skips site packages, for a fast start.
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def _start_watch(parent: int, end: Callable[[], None]) -> None:
    threading.Thread(target=_watch, args=(parent, end), daemon=True).start()


def _watch(parent: int, end: Callable[[], None]) -> None:
    # When the parent dies, the process is adopted by another one, with another process ID.
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    end()


def _main() -> int:
    assert os.getpgrp() == os.getpid(), "the group that ends with the parent must be our own"
    _start_watch(int(sys.argv[1]), lambda: os.killpg(0, signal.SIGKILL))
    status = subprocess.run(sys.argv[2:], check=False).returncode
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(_main())
