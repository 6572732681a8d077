"""The program ``daedal``: loads the command line, and ends in a sentence if that is interrupted.

The first start after an installation says why it is slow.

It imports nothing that takes long: `daedal.cli` takes a good part of a second.
"""

import importlib.util
import os
import sys
from typing import NoReturn

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    try:
        _mention_first_start()
        from daedal.cli import main as run
    except KeyboardInterrupt:
        _leave()
    run()


def _mention_first_start() -> None:
    """Say why the first start takes long. A wheel's modules are compiled as it is installed, those
    of a clone when they are first imported."""
    if sys.dont_write_bytecode or "_DAEDAL_COMPLETE" in os.environ:
        return
    spec = importlib.util.find_spec("daedal.cli")
    if spec is not None and spec.cached and not os.path.exists(spec.cached):
        sys.stderr.write("note: first start: Python compiles its modules, which takes seconds\n")
        sys.stderr.flush()


def _leave() -> NoReturn:
    """Exit at once: what was loaded in part has nothing to clean up."""
    sys.stderr.write("error: interrupted\n")
    sys.stderr.flush()
    os._exit(_INTERRUPTED)
