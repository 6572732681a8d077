"""Runs inside the simulator: ends it when the process that started it is gone.

A simulator is a session of its own, so that an interrupted run can end it with all its children.
So nothing else ends it when its parent is killed, and a program may take hours.
"""

import os
import threading
import time

__all__ = ["end_with_parent"]

_LOOK_SECONDS = 1.0
_EXIT_STATUS = 3


def end_with_parent() -> None:
    """Look after the parent once a second, in a thread that runs beside the simulator's.

    The simulation is not touched: its cycles and its speed stay what they are.
    """
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    # Whoever adopts the process has another number.
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(_EXIT_STATUS)  # the simulator's own thread is not in Python: no exception reaches it
