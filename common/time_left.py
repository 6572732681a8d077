"""How the estimated rest of a step is told, and read again by what prints it."""

import math
import re

__all__ = ["minutes_left", "time_left"]

_LEFT = re.compile(r"\babout (a|[0-9]+) minutes? left\b")


def time_left(seconds: float) -> str:
    """About how long a step still takes, in whole minutes: ``about 4 minutes left``."""
    minutes = math.ceil(seconds / 60)
    return "about a minute left" if minutes <= 1 else f"about {minutes} minutes left"


def minutes_left(text: str) -> int | None:
    """The longest rest that a text tells, as several steps may run at once; None without one."""
    found = [1 if number == "a" else int(number) for number in _LEFT.findall(text)]
    return max(found, default=None)
