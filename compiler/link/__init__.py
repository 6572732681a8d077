"""Linking: the segments of all layers become one program with one launch.

Files in the order of the steps: `order` (LOAD queue), `rows` and `micro_ops` (scratchpads),
`place`, `packing`, `memory_plan` and `resolve` (external memory), `hazards` and `tokens`. `linker`
runs all steps.
"""

from daedal.compiler.link.linker import LinkedProgram, LinkReport, link
from daedal.compiler.link.memory_plan import Alias

__all__ = ["Alias", "LinkReport", "LinkedProgram", "link"]
