"""Pages whose commands and Python are executed: their blocks, and a folder to run them in."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.rtl import CACHE

__all__ = ["blocks", "commands", "make_checkout", "run_line"]

ROOT = Path(__file__).resolve().parent.parent.parent


def blocks(page: str, language: str) -> list[str]:
    """Fenced blocks of a page in one language."""
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def commands(page: str) -> list[str]:
    """Lines of a page's shell blocks, without their comments."""
    lines = "".join(blocks(page, "sh")).splitlines()
    return [line.split("  #")[0].strip() for line in lines if line.strip()]


def make_checkout(folder: Path) -> Path:
    """Make `folder` look like a checkout, for commands that write into it."""
    for name in ("examples", "variants"):
        (folder / name).symlink_to(ROOT / name)
    CACHE.mkdir(parents=True, exist_ok=True)
    (folder / ".daedal").symlink_to(CACHE.parent)
    return folder


def run_line(command: str, folder: Path) -> str:
    """Run a shell line with this Python's tools first on the path; return what it printed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout
