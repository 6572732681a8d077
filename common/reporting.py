"""Sentences about progress: where they go if a caller does not say.

Functions that take long have a parameter ``report``, which is called with one sentence before each
long step. Without it, the sentences go to Python's log.
"""

import logging
from collections.abc import Callable

__all__ = ["Report", "log"]

Report = Callable[[str], None]
"""Called with one sentence."""

_LOG = logging.getLogger("daedal")


def log(sentence: str) -> None:
    """Write a sentence to the log ``daedal`` at level INFO: it is shown only if the program asks
    for it, as with ``logging.basicConfig(level=logging.INFO)``."""
    _LOG.info("%s", sentence)
