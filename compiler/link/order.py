"""Order of instructions within a layer, where LOAD's queue is better served by another."""

from collections.abc import Collection

from daedal.compiler.codegen.segment import Segment, SegmentInstruction
from daedal.isa.table import Unit

__all__ = ["constants_first"]


def constants_first(segment: Segment, constants: Collection[str]) -> list[SegmentInstruction]:
    """The segment's instructions, those leading LOADs first that read `constants`.

    LOAD is one in-order queue. At the head of a layer its activations wait for the STOREs of the
    layer before; weights and parameters ahead of them stream in meanwhile. Moving a LOAD among
    LOADs that stand before any other instruction cannot change what is computed: they write
    distinct buffers.
    """
    items = list(segment.instructions)
    head = next((k for k, item in enumerate(items) if item.unit is not Unit.LOAD), len(items))
    leading = items[:head]
    early = [item for item in leading if item.tensor in constants]
    late = [item for item in leading if item.tensor not in constants]
    return early + late + items[head:]
