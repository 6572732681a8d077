"""Runs random models in child processes, so that a crash or a hang is known by its seed.

A child (`report`) prints lines of JSON: a seed when it starts, its result when it ends. The parent
(`results_of_children`) gives the results, and one of its own for a seed that ended its child.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.json_file import write_json

__all__ = ["collected", "report", "results_of_children", "written"]

CHUNK = 50
"""Models per child process."""

Result = dict[str, Any]


def report(seeds: Sequence[int], result: Callable[[int], Result]) -> None:
    """What a child does."""
    for seed in seeds:
        print(json.dumps({"started": seed}), flush=True)
        print(json.dumps(result(seed)), flush=True)


def results_of_children(
    script: str, arguments: Sequence[str], first: int, count: int, hang_s: float
) -> Iterator[Result]:
    """Results of `count` seeds from `first` on.

    `script` is the command's own file, which calls `report` if it is given ``--child``, ``--seed``
    and ``--count``; `arguments` are its others. A seed hangs that takes longer than `hang_s`.
    """
    seed, end = first, first + count
    with tempfile.TemporaryDirectory() as cache:
        while seed < end:
            command = [sys.executable, script, "--child", "--seed", str(seed)]
            command += ["--count", str(min(CHUNK, end - seed)), *arguments]
            for result in _child(command, hang_s, cache):
                yield result
                seed = result["seed"] + 1


def collected(results: Iterator[Result], count: int) -> list[Result]:
    """All results, with a sentence for each failure as it comes; an interrupt ends them."""
    found: list[Result] = []
    try:
        for result in results:
            found.append(result)
            if result["failure"]:
                where = ", ".join(filter(None, (f"seed {result['seed']}", result.get("variant"))))
                print(f"{where}: {result['failure']}\n{result.get('model', '')}", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted after {len(found)} of {count} models")
    return found


def written(results: Sequence[Result], path: Path | None) -> int:
    """The exit status of a command, after `results` are in the file, if there is one."""
    write_json(path, results)
    return int(any(result["failure"] for result in results))


def _child(command: Sequence[str], hang_s: float, cache: str) -> Iterator[Result]:
    """Results of a child process, up to one that ends it."""
    running: int | None = None
    hung = threading.Event()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": cache},
    ) as child:

        def end() -> None:
            hung.set()
            child.kill()

        assert child.stdout is not None
        while True:
            timer = threading.Timer(hang_s, end)
            timer.start()
            line = child.stdout.readline()
            timer.cancel()
            if not line:
                break
            message = json.loads(line)
            running = message.get("started")
            if running is None:
                yield message
    status = child.returncode
    if running is not None:
        why = (
            f"no result after {hang_s:g} s" if hung.is_set() else f"the process ended with {status}"
        )
        yield {"seed": running, "failure": why}
    elif status:
        raise SystemExit(f"a child process of {' '.join(command)} ended with {status}")
