"""Lowering: a scheduled function of blocks becomes plain loops around stores, step by step.

Every step takes and gives a `PrimFunc` that the interpreter can run, and changes no result:
`blocks` replaces blocks by their bodies and predicates by conditions, `windows` makes buffers as
large as their windows, and `padding` writes out reads that may reach outside. `lower` runs them
all. The lowered function is what code generators read; the rules for blocks no longer hold.
`outputs` makes it store elsewhere. `lower_kernel` is `lower` for a kernel of a GPU: rows lie apart
as `alignment` asks for, `fragments` become registers of the threads, copies of buffers with
`stages` are begun ahead, and `barriers` are placed where threads would race.
"""

from daedal.compiler.tir.lower.alignment import lower_alignment
from daedal.compiler.tir.lower.barriers import lower_barriers
from daedal.compiler.tir.lower.blocks import lower_blocks
from daedal.compiler.tir.lower.fragments import lower_fragments
from daedal.compiler.tir.lower.padding import lower_padding
from daedal.compiler.tir.lower.stages import lower_stages
from daedal.compiler.tir.lower.windows import lower_windows
from daedal.compiler.tir.memo import Memo
from daedal.compiler.tir.stmt import PrimFunc

__all__ = ["lower", "lower_kernel", "mark_lowered"]


@Memo
def lower(func: PrimFunc) -> PrimFunc:
    """`func` as plain loops around stores; itself where it is the result of this function."""
    return mark_lowered(lower_windows(lower_padding(lower_blocks(func))))


def mark_lowered(func: PrimFunc) -> PrimFunc:
    """`func`, of plain loops with simplified indices, which `lower` need not make again."""
    lower.remember(func, func)
    return func


def lower_kernel(func: PrimFunc) -> PrimFunc:
    """A function whose loops are bound to the axes of a GPU, as plain loops with barriers.

    Raises UnsupportedError for a fragment whose elements have no owner, for a buffer with stages
    that is not filled by asynchronous copies, and for races that no barrier prevents.
    """
    return lower_barriers(lower_stages(lower_fragments(lower_alignment(lower(func)))))
