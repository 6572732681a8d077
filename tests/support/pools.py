"""Pools that run in another process, for tests."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["COMMAND", "served"]

COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from daedal.cli import main
main()
"""
"""A shell's background job is started with SIGINT ignored."""


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """The address of a pool that runs in another process, with `arguments` of the command."""
    command = [sys.executable, "-c", COMMAND, "pool", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            match = re.match(r"pool at (\S+)", process.stdout.readline())
            assert match is not None
            if "0" not in arguments:
                assert " with " in process.stdout.readline()
            yield match[1]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
    assert process.returncode == 130
