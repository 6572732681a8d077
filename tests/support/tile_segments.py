"""Segments of layers that are only tiles: a LOAD, an operation and a STORE each."""

from daedal.compiler.codegen.segment import Instance, RowAccess, Segment, SegmentInstruction
from daedal.compiler.link.ordering.interleave import SHORTEST_TILE
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory
from daedal.isa.table import LoadMemory, Opcode

__all__ = ["TENSOR_WORDS", "layer_of_tiles", "loading"]

TENSOR_WORDS = 64
"""Bus words of the tensors of `layer_of_tiles`."""


def layer_of_tiles(
    name: str,
    source: str,
    result: str,
    tiles: list[tuple[int, int]],
    *,
    products: bool,
    shared: bool = False,
    rows: int = 4,
    steps: int = SHORTEST_TILE,
) -> Segment:
    """A tile of so many `steps` for each pair of words, the one that it loads and the one that it
    stores. It works in `rows` accumulators; with `shared`, all tiles do in the same ones."""
    items = []
    common = Instance(f"{name} rows", Memory.ACC, rows)
    for load, store in tiles:
        own = common if shared else Instance(f"{name} rows", Memory.ACC, rows)
        out = Instance(f"{name} out", Memory.OUT, 1)
        move = {"blocks": 1, "rows": 1, "cols": 1}
        items += [
            SegmentInstruction(
                Instruction.of(
                    Opcode.LOAD, memory=LoadMemory.ACC_NARROW, offset_beats=load, **move
                ),
                (RowAccess(own, "row", ((0, 1),), writes=True),),
                source,
            ),
            SegmentInstruction(
                Instruction.of(Opcode.GEMM if products else Opcode.ALU, extent0=steps),
                (
                    RowAccess(own, "acc_base" if products else "src_base", ((0, 1),), reads=True),
                    RowAccess(out, "dst_base", ((0, 1),), writes=True),
                ),
                uops=((0, 0, 0, 1),) if products else ((0, 0, 0),),
            ),
            SegmentInstruction(
                Instruction.of(Opcode.STORE, offset_beats=store, **move),
                (RowAccess(out, "row", ((0, 1),), reads=True),),
                result,
            ),
        ]
    return Segment(name, tuple(items), {source: 8 * TENSOR_WORDS, result: 8 * TENSOR_WORDS})


def loading(*loads: int) -> list[tuple[int, int]]:
    """Tiles that load these words, and store their results one after the other."""
    return [(load, number) for number, load in enumerate(loads)]
