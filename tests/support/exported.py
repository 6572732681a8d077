"""What the tests of exports share: variants, and their emitted Verilog kept between sessions."""

import re

from bench.correctness.rtl_launches import CACHE
from daedal.isa.variant import Variant, load_variant
from daedal.sim.rtl.verilog import kept_verilog

__all__ = ["TOP_PORTS", "emitted", "wide_tiny"]

TOP_PORTS = re.compile(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);$", re.MULTILINE)
"""Direction, highest bit and name of the ports in the text of a module."""


def wide_tiny() -> Variant:
    """`tiny` with another bus: widths that nothing can take for granted."""
    return load_variant("tiny").replace("tiny-wide", batch=2, data_bits=128, address_bits=40)


def emitted(variant: Variant) -> str:
    """The Verilog of a variant."""
    return kept_verilog(variant, CACHE, lambda _sentence: None)
