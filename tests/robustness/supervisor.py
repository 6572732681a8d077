"""Runs cases in a worker process: that it dies or takes too long is an outcome, not an end."""

import json
import select
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Outcome", "run_cases"]

LIMIT_SECONDS = 600.0
"""For a worker that waits; one that computes reaches its bound of processor time much earlier."""

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Outcome:
    """What became of a case: "done", "refused" or, with its fault, "failed"."""

    kind: str
    number: int
    description: str
    outcome: str
    fault: str

    def __str__(self) -> str:
        return f"{self.kind} {self.number} ({self.description}): {self.outcome}\n{self.fault}"


class _Worker:
    """A process that answers one case at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.robustness.worker"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, kind: str, number: int) -> Outcome | None:
        """What became of the case; None where the process came to an end."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{kind} {number}\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], LIMIT_SECONDS)
        line = self._process.stdout.readline() if ready else ""
        return Outcome(kind, number, **json.loads(line)) if line else None

    def end(self) -> int:
        """Stop the process; its status, negative for the signal that ended it."""
        self._process.kill()
        self._process.communicate()
        return self._process.returncode


def run_cases(cases: Iterable[tuple[str, int]]) -> Iterator[Outcome]:
    """The outcome of every case, a kind and a number, in order."""
    worker = _Worker()
    try:
        for kind, number in cases:
            outcome = worker.ask(kind, number)
            if outcome is None:
                fault = f"the worker ended with status {worker.end()}"
                outcome = Outcome(kind, number, "", "failed", fault)
                worker = _Worker()
            yield outcome
    finally:
        worker.end()
