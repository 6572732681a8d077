"""How much of a program's workspace is live at once, from its instructions alone.

This does not use the compiler's report: a byte is live from the layer that stores it to the last
one that loads it before it is overwritten.
"""

import numpy as np
import numpy.typing as npt

from daedal.isa.program import Program
from daedal.isa.table import BASES, Opcode
from daedal.isa.transfer import transfer
from daedal.runtime.layers import layer_tags

__all__ = ["largest_live_set", "workspace_bytes"]

WORKSPACE = BASES.index("workspace")


def workspace_bytes(program: Program) -> int:
    """What the memory plan takes for tensors that neither enter nor leave."""
    return program.region_bytes[WORKSPACE]


def largest_live_set(program: Program) -> int:
    """The most bytes of the workspace that are live in one layer: no plan takes less."""
    words = -(-workspace_bytes(program) // program.variant.bus_bytes)
    live = np.zeros(words, dtype=bool)
    largest = 0
    for stored, loaded in reversed(list(_touched(program).values())):
        during = live.copy()
        during[stored] = during[loaded] = True
        largest = max(largest, int(np.count_nonzero(during)))
        live[stored] = False
        live[loaded] = True
    return largest * program.variant.bus_bytes


_Words = npt.NDArray[np.int64]


def _touched(program: Program) -> dict[int, tuple[_Words, _Words]]:
    """Words of the workspace that each layer stores and loads, in the order of the layers.

    A layer that loads what it stored itself, as one in several parts does, needs nothing earlier.
    """
    found: dict[int, tuple[list[_Words], list[_Words]]] = {}
    for item, tag in zip(program.instructions, layer_tags(program), strict=True):
        if item.opcode not in (Opcode.LOAD, Opcode.STORE) or tag is None:
            continue
        stored, loaded = found.setdefault(tag, ([], []))
        if item.base != WORKSPACE:
            continue
        rows = transfer(program.variant, item)
        bus = program.variant.bus_bytes
        width = np.arange(-(-rows.row_bytes // bus), dtype=np.int64)
        words = (rows.offsets_bytes[:, None] // bus + width).reshape(-1)
        (stored if item.opcode is Opcode.STORE else loaded).append(words)
    return {tag: (_joined(found[tag][0]), _joined(found[tag][1])) for tag in sorted(found)}


def _joined(parts: list[_Words]) -> _Words:
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)
