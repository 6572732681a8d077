"""Turns signals that would end the process into exceptions, so that every caller can clean up."""

import contextlib
import signal
import sys
import threading
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
    reference, of ctypes, in `__del__`. It is then raised again a little later, an interrupt from
    the keyboard, too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Signals that the parent ignores (SIGHUP under nohup) stay ignored.
    caught = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    hook = sys.unraisablehook
    for number in caught:
        signal.signal(number, _end)
    sys.unraisablehook = dropped = _Dropped(hook)
    try:
        yield
    finally:
        sys.unraisablehook = hook
        dropped.disarm()
        for number in caught:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # a second one would interrupt the cleanup
    raise Ended(number)


class _Dropped:
    """The hook for exceptions that Python drops: keeps those of signals, gives `hook` the rest."""

    def __init__(self, hook: Callable[[Any], object]) -> None:
        self._hook = hook
        self._kept: BaseException | None = None
        self._before: Any = None
        """How SIGALRM was handled before this used it."""

    def __call__(self, dropped: Any) -> None:
        """See `sys.unraisablehook`."""
        if not isinstance(dropped.exc_value, (Ended, KeyboardInterrupt)):
            self._hook(dropped)
            return
        self._kept = dropped.exc_value
        before = signal.signal(signal.SIGALRM, self._raise_again)
        if self._before is None:
            self._before = before
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)

    def disarm(self) -> None:
        """Handle SIGALRM as before."""
        if self._before is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)

    def _raise_again(self, _number: int, frame: FrameType | None) -> None:
        """Raise what was dropped, unless this interrupts the hook, where it would be lost."""
        while frame is not None and frame.f_code is not _Dropped.__call__.__code__:
            frame = frame.f_back
        if frame is not None:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
        elif self._kept is not None:
            kept, self._kept = self._kept, None
            raise kept
