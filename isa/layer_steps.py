"""`layer_steps`: when layers use memory, for lifetimes of what they store.

Time is counted in layers that have begun to store: a layer's first STORE begins a step. Where
layers follow each other, each has a step of its own. Where their instructions are mixed, a layer
lasts for the steps that others begin before it is done.
"""

from collections.abc import Iterable

from daedal.isa.table import Opcode

__all__ = ["layer_steps"]


def layer_steps(moves: Iterable[tuple[int, Opcode]]) -> dict[int, tuple[int, int]]:
    """First and last step of each layer; `moves` are the layers of LOADs and STOREs in program
    order, with their opcodes.

    A layer's first step is the one that its first STORE begins, its last step the one in which it
    loads or stores for the last time. A layer without STOREs has only the latter.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for layer, opcode in moves:
        if opcode is Opcode.STORE:
            first.setdefault(layer, len(first))
        last[layer] = max(len(first) - 1, 0)
    return {layer: (first.get(layer, step), step) for layer, step in last.items()}
