"""Lowering: a scheduled function of blocks becomes plain loops around stores, step by step.

Every step takes and gives a `PrimFunc` that the interpreter can run, and changes no result:
`blocks` replaces blocks by their bodies and predicates by conditions, `windows` makes buffers as
large as their windows, and `padding` writes out reads that may reach outside. `lower` runs them
all. The lowered function is what code generators read; the rules for blocks no longer hold.
"""

from daedal.compiler.tir.lower.blocks import lower_blocks
from daedal.compiler.tir.lower.padding import lower_padding
from daedal.compiler.tir.lower.windows import lower_windows
from daedal.compiler.tir.stmt import PrimFunc

__all__ = ["lower"]


def lower(func: PrimFunc) -> PrimFunc:
    """`func` as plain loops around stores."""
    return lower_windows(lower_padding(lower_blocks(func)))
