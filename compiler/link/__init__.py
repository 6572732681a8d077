"""Linking: the segments of all layers become one program with one launch.

Files in the order of the steps: `order` (LOAD queue), `rows` and `micro_ops` (scratchpads),
`place`, `packing`, `memory_plan` and `resolve` (external memory), `hazards` and `tokens`. `linker`
runs all steps. `linked_code` is its result, and `linked_file` its form on disk.
"""

from daedal.compiler.link.linked_code import LinkedCode, LinkedProgram, LinkReport
from daedal.compiler.link.linker import link, link_code
from daedal.compiler.link.memory_plan import Alias

__all__ = ["Alias", "LinkReport", "LinkedCode", "LinkedProgram", "link", "link_code"]
