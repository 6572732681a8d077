"""Finds how long tensors are needed in memory.

Input: placed instructions in program order. Output: the `Life` of each tensor that is moved, in
steps (`daedal.isa.layer_steps`). Rows that stay on chip count only where they are also moved.
"""

from collections.abc import Sequence
from typing import NamedTuple

from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.isa.layer_steps import layer_steps
from daedal.isa.table import Opcode

__all__ = ["Life", "lifetimes"]


class Life(NamedTuple):
    """First and last step that need a tensor, and whether a LOAD reads it."""

    first: int
    last: int
    is_read: bool

    def joined(self, other: "Life") -> "Life":
        """The shortest life that contains both."""
        first, last = min(self.first, other.first), max(self.last, other.last)
        return Life(first, last, self.is_read or other.is_read)


def lifetimes(items: Sequence[PlacedInstruction]) -> dict[str, Life]:
    """The life of each tensor that is loaded or stored: from the first step of the layer that
    stores it to the last step of those that load it. One that is only loaded, as a concatenation of
    others is, lives while it is loaded."""
    moves = [item for item in items if item.instruction.opcode in (Opcode.LOAD, Opcode.STORE)]
    steps = layer_steps((item.layer, item.instruction.opcode) for item in moves)
    lives: dict[str, Life] = {}
    for item in moves:
        if item.tensor is None:
            continue
        first, last = steps[item.layer]
        is_read = item.instruction.opcode is Opcode.LOAD
        life = Life(last if is_read else first, last, is_read)
        known = lives.get(item.tensor)
        lives[item.tensor] = life if known is None else known.joined(life)
    return lives
