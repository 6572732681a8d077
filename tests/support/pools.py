"""Pools that run in another process, for tests."""

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from daedal.native.python_child import python_command, python_environment
from tests.support.processes import listening

__all__ = ["COMMAND", "served"]

COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from daedal.cli import main
main()
"""
"""A shell's background job is started with SIGINT ignored."""


_ROOT = str(Path(__file__).resolve().parents[2])


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """The address of a pool that runs in another process, with `arguments` of the command.

    Its workers find the functions of tests. All its processes must listen at that address alone:
    others are refused.
    """
    command = python_command("-c", COMMAND, "pool", *arguments)
    places = os.pathsep.join(filter(None, [_ROOT, os.environ.get("PYTHONPATH")]))
    environment = python_environment({"PYTHONPATH": places})
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            match = re.match(r"pool at (\S+)", process.stdout.readline())
            assert match is not None
            if "0" not in arguments:
                assert " with " in process.stdout.readline()
            _check_that_only_it_is_open(match[1], process.pid)
            yield match[1]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
    assert process.returncode == 130


def _check_that_only_it_is_open(url: str, pid: int) -> None:
    host = urlsplit(url).hostname
    found = listening(pid)
    assert {name for name, _ in found} == {host}, "a member listens at another address"
    assert host != _OTHER_ADDRESS
    for _, port in found:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((_OTHER_ADDRESS, port), timeout=10).close()


_OTHER_ADDRESS = "127.0.0.2"
"""Also of this machine: the whole of 127.0.0.0/8 is."""
