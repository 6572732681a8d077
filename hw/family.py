"""What a machine can be emitted for: the platforms of Amaranth's elaboration.

None, the platform of Amaranth's own simulator, is neither of these.
"""

import enum

__all__ = ["Family", "Portable"]


class Family(enum.Enum):
    """Families that Yosys maps to, with one device of each as the reference."""

    XC7 = "xc7"
    ECP5 = "ecp5"
    XCUP = "xcup"


class Portable(enum.Enum):
    """Text that all tools understand, with the assertions of `contracts` or without."""

    PLAIN = "plain"
    ASSERTED = "asserted"
