"""Finds STOREs of results that nothing reads.

A tensor that stays on chip from the layer that computes it to its last reader (`resident_rows`,
`kept_results`) is stored only for those who look at every layer. The program keeps its STOREs, with
their tokens, but they move nothing; `Program.observed` has them whole, and the memory for them.

Input: placed instructions with their memory. Output: numbers of instructions.
"""

from collections.abc import Collection, Mapping, Sequence

from daedal.compiler.link.placement.memory_plan import WORKSPACE, Alias
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.isa.instruction import Instruction
from daedal.isa.table import Unit

__all__ = ["unread_stores"]


def unread_stores(
    items: Sequence[PlacedInstruction], aliases: Mapping[str, Alias], outputs: Collection[str]
) -> dict[int, int]:
    """The STOREs of `items` into the workspace that no LOAD reads, and the planes of each.

    Tensors that share bytes count as one: nothing of them may be loaded, or be an output. A LOAD
    that only pads reads nothing.
    """

    def group(name: str) -> str:
        return aliases[name].group if name in aliases else name

    read = {
        group(item.tensor)
        for item in items
        if item.unit is Unit.LOAD and item.tensor and _moves(item.instruction)
    }
    read.update(map(group, outputs))
    return {
        number: planes
        for number, item in enumerate(items)
        if item.unit is Unit.STORE
        and item.tensor is not None
        and group(item.tensor) not in read
        and item.instruction.values.get("base", 0) == WORKSPACE
        and (planes := item.instruction.values.get("blocks", 0))
    }


def _moves(load: Instruction) -> bool:
    """Whether a LOAD reads any row of memory."""
    return all(load.values.get(name, 0) for name in ("blocks", "rows", "cols"))
