"""Stand-ins for Icarus Verilog, first on PATH: builds that take no time, or no end."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.processes import alive, wait_until

__all__ = ["FakeIcarus"]

_IVERILOG = """#!/bin/sh
here="{folder}"
if [ "$1" = -V ]; then echo "Icarus Verilog version 12.0 (stand-in)"; exit; fi
echo build >> "$here/calls"
if [ -e "$here/endless" ]; then
    sleep 3600 &
    echo $! $$ >> "$here/started"
    echo $! $$ > "$here/pids.new"
    mv "$here/pids.new" "$here/pids"
    wait
fi
if [ -e "$here/slow" ]; then sleep 0.5; fi
while [ "$1" != -o ]; do shift; done
echo design > "$2"
"""


class FakeIcarus:
    """A folder with ``iverilog`` and ``vvp``.

    Attributes
    ----------
    folder : what to put first on PATH.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("iverilog", "vvp"):
            (folder / name).write_text(_IVERILOG.format(folder=folder))
            (folder / name).chmod(0o755)

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put it first on PATH, for this process and those that it starts."""
        monkeypatch.setenv("PATH", f"{self.folder}{os.pathsep}{os.environ['PATH']}")

    def become(self, kind: str | None) -> None:
        """Builds to come are ``endless``, ``slow``, or (None) immediate."""
        for name in ("endless", "slow"):
            (self.folder / name).unlink(missing_ok=True)
        if kind is not None:
            (self.folder / kind).touch()

    @property
    def num_builds(self) -> int:
        """Builds that began."""
        calls = self.folder / "calls"
        return len(calls.read_text().splitlines()) if calls.exists() else 0

    def end(self) -> None:
        """End what still runs, where a test failed."""
        started = self.folder / "started"
        for word in started.read_text().split() if started.exists() else ():
            if alive(int(word)):
                os.kill(int(word), signal.SIGKILL)

    def wait_for_build(self) -> list[int]:
        """Wait until an endless build runs; the processes of the tool and of its child."""
        pids = self.folder / "pids"
        wait_until(pids.exists)
        found = [int(word) for word in pids.read_text().split()]
        pids.unlink()
        return found
