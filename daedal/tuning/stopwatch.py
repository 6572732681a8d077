"""`Stopwatch`: runs kernels and times them; `ChildStopwatch`, in a child process."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol, TypeVar, cast

import numpy.typing as npt

from daedal.tuning.child_process import ChildDiedError, ChildProcess, ChildTimeoutError
from daedal.tuning.kernel_code import KernelCode
from daedal.tuning.runner import Failure, Result

__all__ = ["ChildStopwatch", "Stopwatch"]

Array = npt.NDArray[Any]
Code = TypeVar("Code", contravariant=True)

TIMEOUT_SECONDS = 120.0
MEMORY_BYTES = 16 << 30
"""Address space of the child."""


class Stopwatch(Protocol[Code]):
    """Runs kernels with equal operands."""

    def result(self, code: Code) -> Array | Result:
        """What a kernel stores, or the failure of a kernel that crashes or hangs."""

    def times(self, codes: Sequence[Code]) -> list[list[int]] | Result:
        """(kernels, rounds): nanoseconds of kernels in turn, or the failure of one of them."""


class ChildStopwatch:
    """Runs kernels in a child process, which may crash or hang alone."""

    def __init__(self, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._seconds = timeout_seconds
        self._child = ChildProcess("time", MEMORY_BYTES)

    def __enter__(self) -> "ChildStopwatch":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child."""
        self._child.close()

    def result(self, code: KernelCode) -> Array | Result:
        """See `Stopwatch`."""
        return cast(Array | Result, self._answer(code))

    def times(self, codes: Sequence[KernelCode]) -> list[list[int]] | Result:
        """See `Stopwatch`."""
        return cast(list[list[int]] | Result, self._answer(list(codes)))

    def _answer(self, message: object) -> object:
        try:
            self._child.send(message)
            return self._child.receive(self._seconds)
        except ChildTimeoutError:
            return Result.failed(Failure.TIMEOUT, f"it takes more than {self._seconds:g} s")
        except ChildDiedError as error:
            return Result.failed(Failure.CRASH, str(error))
