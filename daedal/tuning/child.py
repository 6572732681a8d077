"""The program of a child process: it builds or runs candidates until its parent is done.

    python -m daedal.tuning.child ROLE DESCRIPTOR MEMORY_BYTES

`ChildProcess` starts it. Each message is answered before the next one is read. A builder gets
configurations and answers with programs; a runner gets programs and answers with results. So code
of the compiler and of devices never runs in one process, and either may crash alone. A timer gets
kernels of a processor and answers with what they store, or take.
"""

import resource
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from daedal.common.errors import DaedalError, first_line
from daedal.isa.program import Program
from daedal.sim.rtl.orphan import end_with_parent
from daedal.tuning.child_process import READY
from daedal.tuning.kernel_clock import serve_kernels
from daedal.tuning.layer_runner import build, prepare, run
from daedal.tuning.layer_task import LayerTask
from daedal.tuning.runner import Failure, Result

__all__ = ["main", "serve"]

TIMER = "time"
_ROLES: dict[str, Callable[[LayerTask, Any], Program | Result]] = {"build": build, "run": run}


def serve(connection: Connection, role: str) -> None:
    """Answer messages until the other end is closed.

    A message is the bytes of a task, answered by its key (or by the error of a device that is not
    there), or a candidate, answered by what the role makes of it: a `Result`, or None and then a
    `Program`.
    """
    work = _ROLES[role]
    task: LayerTask | None = None
    while True:
        try:
            message = connection.recv()
        except EOFError:
            return
        if isinstance(message, bytes):
            task = LayerTask.from_bytes(message)
            connection.send(_ready_for(task, role))
        else:
            assert task is not None, "a task comes before its candidates"
            answer = _tried(work, task, message)
            if isinstance(answer, Program):
                connection.send(None)
            connection.send(answer)


def _ready_for(task: LayerTask, role: str) -> str | DaedalError:
    """The task's key when the device is there, or why it is not."""
    if role == "run":
        try:
            prepare(task)
        except DaedalError as error:
            return error
    return task.key


def _tried(
    work: Callable[[LayerTask, Any], Program | Result], task: LayerTask, candidate: Any
) -> Program | Result:
    """What `work` makes of a candidate; whatever it raises fails this candidate alone."""
    try:
        return work(task, candidate)
    except MemoryError:
        return Result.failed(Failure.CRASH, "it needs more memory than a candidate may have")
    except DaedalError as error:
        return Result.failed(Failure.CRASH, first_line(error))
    except Exception as error:  # a bug that shows in this candidate; the others can be measured
        return Result.failed(Failure.CRASH, f"{type(error).__name__}: {first_line(error)}")


def main() -> None:
    """See the module."""
    role, descriptor, memory_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    end_with_parent()
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    with Connection(descriptor) as connection:
        connection.send(READY)
        if role == TIMER:
            serve_kernels(connection)
        else:
            serve(connection, role)


if __name__ == "__main__":
    main()
