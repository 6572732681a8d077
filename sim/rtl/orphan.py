"""Ends what runs for a process when that process is gone.

Simulators and builds are sessions of their own, so that an interrupted run can end them with all
their children. So nothing else ends them when their parent is killed, and a program may take hours.
A simulator runs Python, and so looks after its parent itself. A build tool gets a companion, this
file as a program::

    python orphan.py PARENT COMMAND...

It leads the session, runs the command in it, and exits as that does.
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


def end_with_parent() -> None:
    """Look after the parent once a second, in a thread that runs beside the simulator's.

    The simulation is not touched: its cycles and its speed stay what they are.
    """
    # The simulator's own thread is not in Python: no exception reaches it.
    _start_watch(os.getppid(), lambda: os._exit(_EXIT_STATUS))


def companion(command: Sequence[str]) -> list[str]:
    """The command line that runs `command` while this process lives, as a session's leader."""
    # Without site packages: it starts at once.
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def _start_watch(parent: int, end: Callable[[], None]) -> None:
    threading.Thread(target=_watch, args=(parent, end), daemon=True).start()


def _watch(parent: int, end: Callable[[], None]) -> None:
    # Whoever adopts the process has another number.
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
