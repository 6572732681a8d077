"""Turns signals that would end the process into exceptions, so that every caller can clean up."""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

__all__ = ["Ended", "signals_raise"]

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_AGAIN_SECONDS = 0.05


class Ended(SystemExit):
    """A signal asks the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


@contextlib.contextmanager
def signals_raise() -> Iterator[None]:
    """Within the block, signals that would end the process at once raise `Ended`.

    Python drops an exception that is raised in a callback: of the garbage collector, of a weak
    reference, of ctypes, in `__del__`. The signal is then sent again, an interrupt from the
    keyboard, too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Signals that the parent ignores (SIGHUP under nohup) stay ignored.
    caught = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    hook = sys.unraisablehook
    for number in caught:
        signal.signal(number, _end)
    sys.unraisablehook = _resending(hook)
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number in caught:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # a second one would interrupt the cleanup
    raise Ended(number)


def _resending(hook: Callable[[Any], object]) -> Callable[[Any], object]:
    """A hook for exceptions that are dropped, which sends signals again and gives the rest to
    `hook`."""

    def resend(dropped: Any) -> None:
        error = dropped.exc_value
        if isinstance(error, Ended):
            signal.signal(error.number, _end)
            _send_later(error.number)
        elif isinstance(error, KeyboardInterrupt):
            _send_later(signal.SIGINT)
        else:
            hook(dropped)

    return resend


def _send_later(number: int) -> None:
    """Send a signal to this process when the callback that runs now may be over."""

    def send() -> None:
        time.sleep(_AGAIN_SECONDS)
        os.kill(os.getpid(), number)

    threading.Thread(target=send, daemon=True).start()
