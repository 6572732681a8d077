"""Keeps weights on chip between launches.

A program that is launched again and again, as that of a decoder, loads the same weights each time,
although scratchpads keep their contents. Here, tiles of weights get rows that nothing else uses,
and their LOADs move to the front of the program, its *setup*: a launch that follows one of the same
program begins behind them (`daedal.isa.program.Program.setup`).

Before::

    LOAD   w[0:8]  = fc1.weight[0:8]                # layer 1
    GEMM   acc    += inp * w[0:8]
    LOAD   w[0:8]  = fc2.weight[0:8]                # layer 2
    GEMM   acc    += inp * w[0:8]

After::

    LOAD   K[0:8]  = fc1.weight[0:8]                # setup
    LOAD   K[8:16] = fc2.weight[0:8]
    GEMM   acc    += inp * K[0:8]                   # layer 1
    GEMM   acc    += inp * K[8:16]                  # layer 2

Input and output: the instructions of all layers in program order.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from daedal.compiler.codegen.segment import Instance, SegmentInstruction, renamed
from daedal.compiler.link.ordering.interleave import Stretch
from daedal.isa.scratchpad import Memory
from daedal.isa.table import LoadMemory, Unit

__all__ = ["KeptWeights", "keep_weights"]


@dataclass(frozen=True)
class KeptWeights:
    """A program some of whose weights stay on chip.

    Parameters
    ----------
    parts : the program without the LOADs of these weights.
    setup : these LOADs, with the number of the layer of each.
    instances : the tiles that they fill.
    """

    parts: tuple[Stretch, ...]
    setup: tuple[tuple[int, SegmentInstruction], ...]
    instances: tuple[Instance, ...]


def keep_weights(parts: Sequence[Stretch], constants: Collection[str], rows: int) -> KeptWeights:
    """Keep tiles of weights that take up to `rows` rows together.

    Of every layer, it keeps the first ones: a layer begins with what is on chip, and loads the rest
    meanwhile. Tiles with 4 bits in memory come last: their rows take half the time to load.
    """
    if not rows:
        return KeptWeights(tuple(parts), (), ())
    chosen = _chosen([_tiles(part, constants) for part in parts], rows)
    setup: list[tuple[int, SegmentInstruction]] = []
    rest: list[Stretch] = []
    for part, tiles in zip(parts, chosen, strict=True):
        left: list[tuple[int, SegmentInstruction]] = []
        for layer, item in part.items:
            fills = item.unit is Unit.LOAD and item.rows[0].instance in tiles
            (setup if fills else left).append((layer, renamed(item, tiles)))
        rest.append(replace(part, items=tuple(left)))
    instances = (instance for tiles in chosen for instance in tiles.values())
    return KeptWeights(tuple(rest), tuple(setup), tuple(instances))


def _tiles(part: Stretch, constants: Collection[str]) -> list[tuple[Instance, bool]]:
    """The tiles of weights of a stretch that are filled with constants, and whether these have 4
    bits in memory."""
    filled: dict[Instance, bool] = {}
    narrow: set[Instance] = set()
    for _, item in part.items:
        for access in item.rows:
            if access.instance.memory is Memory.WGT and access.writes:
                known = filled.get(access.instance, True)
                filled[access.instance] = known and item.tensor in constants
                if item.template.values.get("memory", 0) == LoadMemory.WGT_NARROW:
                    narrow.add(access.instance)
    return [(tile, tile in narrow) for tile, is_constant in filled.items() if is_constant]


def _chosen(
    parts: Sequence[Sequence[tuple[Instance, bool]]], rows: int
) -> list[dict[Instance, Instance]]:
    """For each stretch, the tiles that are kept, with what stands for them.

    Layers of one kind share their instances, and each keeps its own weights.
    """
    order: list[tuple[bool, float, int, Instance]] = []
    for number, tiles in enumerate(parts):
        total, begin = sum(instance.rows for instance, _ in tiles), 0
        for instance, is_narrow in tiles:
            begin += instance.rows
            order.append((is_narrow, begin / total, number, instance))
    chosen: list[dict[Instance, Instance]] = [{} for _ in parts]
    for _, _, number, instance in sorted(order, key=lambda item: item[:3]):
        if instance.rows <= rows:
            rows -= instance.rows
            chosen[number][instance] = replace(instance)
    return chosen
