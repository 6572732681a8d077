"""The FPGA families that a machine can be emitted and synthesized for."""

import enum

__all__ = ["Family"]


class Family(enum.Enum):
    """Families that Yosys maps to, with one device of each as the reference."""

    XC7 = "xc7"
    ECP5 = "ecp5"
    XCUP = "xcup"
