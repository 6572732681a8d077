"""Verilog of a variant: one text, the same bytes on every machine.

Input: a variant. Output: Verilog-2005 with the top module `daedal_top`.
"""

import re

from amaranth.back import verilog

from daedal.hw.machine import Machine
from daedal.isa.variant import Variant

__all__ = ["TOP_MODULE", "emit_verilog"]

TOP_MODULE = "daedal_top"


def emit_verilog(variant: Variant) -> str:
    """Return the accelerator as Verilog text, ending with a newline.

    Equal parameters give equal bytes: source locations, which hold paths, are left out, and the
    header names what the text was made from instead of when.
    """
    text = verilog.convert(
        Machine(variant=variant), name=TOP_MODULE, emit_src=False, strip_internal_attrs=True
    )
    text = re.sub(r"\A/\*.*?\*/\n", "", text, count=1)  # the generator's name, version and build
    header = (
        f"// Daedal accelerator, variant {variant.name}, fingerprint {variant.fingerprint}.\n"
        "// Generated; change hw/ or the variant instead.\n\n"
    )
    return header + text.rstrip("\n") + "\n"
