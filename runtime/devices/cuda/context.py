"""`Context`: what all work on a GPU of this process shares: its context and one stream."""

import weakref
from collections.abc import Callable

from daedal.runtime.devices.cuda.driver import Driver

__all__ = ["Context"]


class Context:
    """The shared context of a GPU and a stream of our own, given back with this object.

    Attributes
    ----------
    driver, stream : what calls take.
    """

    def __init__(self, driver: Driver, device: int) -> None:
        self.driver = driver
        self._handle = driver.retain_context(device)
        self._captures = False
        self._later: list[Callable[[Driver], None]] = []
        driver.enter_context(self._handle)
        self.stream = driver.create_stream()
        weakref.finalize(
            self, _close, driver, device, self._handle, self.stream
        ).atexit = False  # The driver ends its work with the process.

    def enter(self) -> Driver:
        """The driver, for work of this thread in this context."""
        self.driver.enter_context(self._handle)
        return self.driver

    def give_back(self, work: Callable[[Driver], None]) -> None:
        """Do work that gives something back, which fails while launches are captured, and after a
        kernel that failed: during a capture later, in a lost context not at all."""
        if self._captures:
            self._later.append(work)
        elif not self.driver.is_lost:
            work(self.enter())

    def begin_capture(self) -> None:
        """Keep launches for a graph instead of running them."""
        self.enter().begin_capture(self.stream)
        self._captures = True

    def end_capture(self, *, drop: bool = False) -> int:
        """The graph of what was launched; 0 if it is dropped."""
        self._captures = False
        try:
            if drop:
                self.driver.drop_capture(self.stream)
                return 0
            return self.driver.end_capture(self.stream)
        finally:
            while self._later:
                self.give_back(self._later.pop(0))


def _close(driver: Driver, device: int, handle: int, stream: int) -> None:
    if not driver.is_lost:
        driver.enter_context(handle)
        driver.destroy_stream(stream)
        driver.release_context(device)
