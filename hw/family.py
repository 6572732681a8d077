"""Targets that a machine can be emitted for: the platforms of Amaranth's elaboration.

Amaranth's own simulator has the platform None instead.
"""

import enum
from typing import TYPE_CHECKING, TypeAlias, Union

if TYPE_CHECKING:
    from daedal.hw.contracts import GatheredContracts

__all__ = ["Family", "Platform", "Portable"]


class Family(enum.Enum):
    """Families that Yosys maps to, with one device of each as the reference."""

    XC7 = "xc7"
    ECP5 = "ecp5"
    XCUP = "xcup"


class Portable(enum.Enum):
    """Portable Verilog for all tools, with or without the assertions of `contracts`."""

    PLAIN = "plain"
    ASSERTED = "asserted"


Platform: TypeAlias = Union[Family, Portable, "GatheredContracts", None]
"""The argument of `elaborate`; None from Amaranth's own simulator."""
