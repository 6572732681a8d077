"""What a machine can be emitted for: the platforms of Amaranth's elaboration.

None, the platform of Amaranth's own simulator, is neither of these.
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
    """Text that all tools understand, with the assertions of `contracts` or without."""

    PLAIN = "plain"
    ASSERTED = "asserted"


Platform: TypeAlias = Union[Family, Portable, "GatheredContracts", None]
"""What `elaborate` is given; None by Amaranth's own simulator."""
