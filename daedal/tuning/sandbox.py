"""`Sandbox`: measures candidates in two child processes, a builder and a runner.

A candidate that hangs, crashes or takes too much memory fails alone: its process is ended, and the
next candidate gets a new one.
"""

import time
from types import TracebackType

from daedal.common.errors import DaedalError, TuningError
from daedal.compiler.ops.space import Config
from daedal.tuning.child_process import ChildDiedError, ChildProcess, ChildTimeoutError
from daedal.tuning.runner import Failure, Result

__all__ = ["MEMORY_BYTES", "TIMEOUT_SECONDS", "Sandbox"]

TIMEOUT_SECONDS = 120.0
"""Default time that a candidate may take to be built and run."""

MEMORY_BYTES = 8 << 30
"""Default address space of each child."""

_LOAD_SECONDS = 1800.0
"""How long a child may take to read a task and prepare its device: simulators are compiled."""


class Sandbox:
    """A builder and a runner, for tasks that come as bytes (`LayerTask.to_bytes`).

    Parameters
    ----------
    timeout_seconds : time that a candidate may take; starting a process does not count.
    memory_bytes : address space of each process.

    Raises
    ------
    TuningError
        One of them is not above 0.
    """

    def __init__(
        self, timeout_seconds: float = TIMEOUT_SECONDS, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        if not timeout_seconds > 0:
            raise TuningError(
                f"the time that a candidate may take must be more than 0 s, not {timeout_seconds:g}"
            )
        if not memory_bytes > 0:
            raise TuningError(f"a candidate must have some memory, not {memory_bytes} bytes")
        self.timeout_seconds = timeout_seconds
        self._builder = ChildProcess("build", memory_bytes)
        self._runner = ChildProcess("run", memory_bytes)
        self._loaded: dict[ChildProcess, tuple[str, int | None]] = {}

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End both processes."""
        self._builder.close()
        self._runner.close()

    @property
    def pids(self) -> tuple[int | None, int | None]:
        """Of the builder and of the runner; None for one that is not running."""
        return self._builder.pid, self._runner.pid

    def measure(self, key: str, task: bytes, config: Config) -> Result:
        """The result of one configuration; its bytes are not yet compared.

        A process that ends may have been killed by someone else, so the candidate gets a second
        one before it counts as crashed. `key` is the task's.

        Raises DaedalError if the device is not there, such as ToolError for a missing simulator.
        """
        try:
            return self._attempt(key, task, config)
        except ChildDiedError:
            pass
        try:
            return self._attempt(key, task, config)
        except ChildDiedError as error:
            return Result.failed(Failure.CRASH, str(error))

    def _attempt(self, key: str, task: bytes, config: Config) -> Result:
        self._load(self._builder, key, task)
        self._load(self._runner, key, task)
        deadline = time.monotonic() + self.timeout_seconds
        try:
            self._builder.send(config)
            answer = self._builder.receive(deadline - time.monotonic())
            if answer is None:
                program = self._builder.receive_pickled(deadline - time.monotonic())
                self._runner.send_pickled(program)
                answer = self._runner.receive(deadline - time.monotonic())
        except ChildTimeoutError:
            return Result.failed(Failure.TIMEOUT, f"it takes more than {self.timeout_seconds:g} s")
        assert isinstance(answer, Result)
        return answer

    def _load(self, child: ChildProcess, key: str, task: bytes) -> None:
        """Give the task to a child that does not have it."""
        if child.pid is not None and self._loaded.get(child) == (key, child.pid):
            return
        child.send(task)
        try:
            answer = child.receive(_LOAD_SECONDS)
        except ChildTimeoutError:
            raise ChildDiedError("its process did not read the task") from None
        if isinstance(answer, DaedalError):
            raise answer
        assert answer == key, "both ends compute the same key"
        self._loaded[child] = (key, child.pid)
