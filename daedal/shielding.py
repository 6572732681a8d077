"""`shielded`: starts processes that signals of the terminal do not reach.

Control-C and a terminal that is closed signal all processes at once. Workers that die of it leave
tracebacks and semaphores; the process that started them ends them instead.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

__all__ = ["shielded"]

_TERMINAL = frozenset({signal.SIGINT, signal.SIGHUP})
_DEFERRED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


@contextmanager
def shielded() -> Iterator[None]:
    """Processes that are started within the block never get SIGINT and SIGHUP; this one gets them,
    and SIGTERM, at its end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _TERMINAL)
    try:
        # It ends last, and removes semaphores; in starting it, Python unblocks SIGINT.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, _TERMINAL)
        with _deferred():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _deferred() -> Iterator[None]:
    """Call the handlers of signals that arrive within the block at its end.

    A blocked signal is still delivered where another thread does not block it.
    """
    arrived: list[int] = []
    handlers: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in _DEFERRED}
        handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in handlers:
        signal.signal(number, lambda number, _frame: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in arrived[:1]:
            handlers[number](number, None)
