"""Linking: the segments of all layers become one program with one launch.

`ordering` decides what runs at the same time, `on_chip` leaves out transfers, and `placement` gives
everything its place; `linker` runs their steps. `linked_code` is its result, and `linked_file` its
form on disk.
"""

from daedal.compiler.link.linked_code import LinkedCode, LinkedProgram, LinkReport
from daedal.compiler.link.linker import link, link_code
from daedal.compiler.link.placement.memory_plan import Alias

__all__ = ["Alias", "LinkReport", "LinkedCode", "LinkedProgram", "link", "link_code"]
