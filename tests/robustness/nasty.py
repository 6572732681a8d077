"""Values that parsers trip over: names, integers, real numbers and shapes."""

from typing import Any

import numpy as np

__all__ = ["NASTY_NAMES", "nasty_integer", "nasty_name", "nasty_real", "nasty_shape", "pick"]

Rng = np.random.Generator

NASTY_NAMES = (
    "",
    " ",
    ".",
    "..",
    "../../escaped",
    "/etc/passwd",
    "a/b\\c",
    "C:\\x",
    "CON",
    "line\nbreak",
    "tab\tbell\a",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b31m",
    "nul\0byte",
    "[bold]markup[/bold]",
    "[/red]",
    "{0} %s %n $HOME `id`",
    "'quoted\"",
    "\u202eright to left",
    "\u2028separator",
    "é" * 40,
    "𝕏" * 3,
    "x" * 300,
    "x" * 70_000,
    "y_q",
    "input",
    "__class__",
)

_INTEGERS = (
    *(0, 1, 2, 3, -1, -2, 7, 255, 256, -128, 65535, 65536, 65537),
    *(1 << 20, 1 << 28, (1 << 31) - 1, 1 << 31, -(1 << 31), 1 << 40, (1 << 62)),
    *((1 << 63) - 1, -(1 << 63)),
)

_REALS = (
    *(0.0, -0.0, 1.0, -1.0, 1e-45, 1e-38, 1e-30, 1e30, 3.4e38, -3.4e38),
    *(float("nan"), float("inf"), float("-inf")),
)


def pick(rng: Rng, items: Any) -> Any:
    """One of `items`, which stays what it is."""
    return items[int(rng.integers(len(items)))]


def nasty_name(rng: Rng) -> str:
    """A name for a tensor, a node or a file."""
    return str(pick(rng, NASTY_NAMES))


def nasty_integer(rng: Rng) -> int:
    """A number of 64 bits."""
    return int(pick(rng, _INTEGERS))


def nasty_real(rng: Rng) -> float:
    """A number of 32 bits."""
    return float(pick(rng, _REALS))


def nasty_shape(rng: Rng) -> list[int]:
    """Extents, as often plausible as not."""
    rank = int(rng.integers(0, 10))
    return [
        nasty_integer(rng) if rng.random() < 0.4 else int(rng.integers(1, 9)) for _ in range(rank)
    ]
