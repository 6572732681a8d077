"""Targets that a machine can be emitted for: the platforms of Amaranth's elaboration.

Amaranth's own simulator has the platform None instead.
"""

import enum
from typing import TypeAlias

from amaranth.hdl import Signal

__all__ = ["Family", "GatheredContracts", "Platform", "Portable"]


class Family(enum.Enum):
    """Families that Yosys maps to, with one device of each as the reference."""

    XC7 = "xc7"
    ECP5 = "ecp5"
    XCUP = "xcup"


class Portable(enum.Enum):
    """Portable Verilog for all tools, with or without the assertions of `contracts`."""

    PLAIN = "plain"
    ASSERTED = "asserted"


class GatheredContracts:
    """A platform for proofs: each contract becomes a signal in `found`, by its rule, to stay 1."""

    def __init__(self) -> None:
        self.found: list[tuple[str, Signal]] = []


Platform: TypeAlias = Family | Portable | GatheredContracts | None
"""The argument of `elaborate`; None from Amaranth's own simulator."""
