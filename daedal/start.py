"""The program ``daedal``: loads the command line, and ends in a sentence if that is interrupted.

It imports nothing that takes long: `daedal.cli` takes a good part of a second.
"""

import os
import sys
from typing import NoReturn

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    try:
        from daedal.cli import main as run
    except KeyboardInterrupt:
        _leave()
    run()


def _leave() -> NoReturn:
    """Exit at once: what was loaded in part has nothing to clean up."""
    sys.stderr.write("error: interrupted\n")
    sys.stderr.flush()
    os._exit(_INTERRUPTED)
