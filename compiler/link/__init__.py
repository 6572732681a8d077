"""Linking: the segments of all layers become one program with one launch.

Files in the order of the work: `order` (LOAD queue), `rows` and `micro_ops` (scratchpads), `place`,
`memory_plan` and `resolve` (external memory), `hazards` and `tokens`, `linker` (all of it).
"""

from daedal.compiler.link.linker import LinkedProgram, LinkReport, link

__all__ = ["LinkReport", "LinkedProgram", "link"]
