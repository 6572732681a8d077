"""Keeps constants on chip between launches.

A program that is launched again and again, as that of a decoder, loads the same weights, parameters
and constant maps each time, although scratchpads keep their contents. Here, tiles of constants get
rows that nothing else uses, and their LOADs move to the front of the program, its *setup*: a launch
that follows one of the same program begins behind them (`daedal.isa.program.Program.setup`). Layers
that load the same constants share the rows. So do layers that load the same part of an input, which
the first of them loads in every launch.

Before::

    LOAD   w[0:8]  = fc1.weight[0:8]                # layer 1
    LOAD   p[0:1]  = parameters[0:1]
    GEMM   acc    += inp * w[0:8]
    ALU    out     = requantize(acc, p[0:1])
    LOAD   w[0:8]  = fc2.weight[0:8]                # layer 2
    LOAD   p[0:1]  = parameters[0:1]
    GEMM   acc    += inp * w[0:8]
    ALU    out     = requantize(acc, p[0:1])

After::

    LOAD   K[0:8]  = fc1.weight[0:8]                # setup
    LOAD   L[0:1]  = parameters[0:1]
    LOAD   K[8:16] = fc2.weight[0:8]
    GEMM   acc    += inp * K[0:8]                   # layer 1
    ALU    out     = requantize(acc, L[0:1])
    GEMM   acc    += inp * K[8:16]                  # layer 2
    ALU    out     = requantize(acc, L[0:1])

Input and output: the instructions of all layers in program order.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from daedal.compiler.codegen.segment import Instance, SegmentInstruction, renamed
from daedal.compiler.link.ordering.interleave import Stretch
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory, Unit
from daedal.isa.variant import Variant

__all__ = [
    "PARAMETER_SHARES",
    "KeptBetweenLaunches",
    "keep_between_launches",
    "rows_to_keep",
]

SHARES = {Memory.WGT: 1.0, Memory.INP: 1 / 4}
"""The most rows of each scratchpad that constants may keep, as a part of all: activations need
those of INP."""

PARAMETER_SHARES = (1 / 2, 7 / 8)
"""The same of PAR. Every layer loads parameters, which waits with fewer rows; the linker takes what
its estimate of the program likes best."""


@dataclass(frozen=True)
class KeptBetweenLaunches:
    """A program some of whose constants stay on chip.

    Parameters
    ----------
    parts : the program without the LOADs of these constants.
    setup : these LOADs, with the number of the layer of each.
    instances : the tiles that they fill.
    """

    parts: tuple[Stretch, ...]
    setup: tuple[tuple[int, SegmentInstruction], ...]
    instances: tuple[Instance, ...]


def rows_to_keep(variant: Variant, share: float, parameters: float) -> dict[Memory, int]:
    """Rows of each scratchpad that constants may keep: this share of the most that they may, which
    is the part `parameters` of PAR."""
    return {
        memory: int(share * most * scratchpad(variant, memory).depth_rows)
        for memory, most in (SHARES | {Memory.PAR: parameters}).items()
    }


def keep_between_launches(
    parts: Sequence[Stretch],
    constants: Collection[str],
    rows: Mapping[Memory, int],
    inputs: Collection[str] = (),
) -> KeptBetweenLaunches:
    """Keep tiles of constants that take up to `rows` rows of each scratchpad together.

    First come those that save most bus words for a row: tiles that several layers load, and those
    with 4 bits in memory last. Among equals, it keeps the first ones of every layer: a layer begins
    with what is on chip, and loads the rest meanwhile. Tiles of `inputs`, tensors that the program
    does not write, are kept from their first LOAD on, if there are several LOADs of them.
    """
    names = _chosen([_tiles(part, constants, rows, inputs) for part in parts], rows)
    setup: list[tuple[int, SegmentInstruction]] = []
    rest: list[Stretch] = []
    # Of tiles with the same constants, the first one that is loaded fills the rows of all.
    filled: dict[Instance, tuple[int, Instance]] = {}
    for number, (part, tiles) in enumerate(zip(parts, names, strict=True)):
        left: list[tuple[int, SegmentInstruction]] = []
        for layer, item in part.items:
            moved = renamed(item, tiles)
            if item.unit is not Unit.LOAD or item.rows[0].instance not in tiles:
                left.append((layer, moved))
                continue
            source = number, item.rows[0].instance
            if filled.setdefault(moved.rows[0].instance, source) == source:
                (left if item.tensor in inputs else setup).append((layer, moved))
        rest.append(replace(part, items=tuple(left)))
    return KeptBetweenLaunches(tuple(rest), tuple(setup), tuple(filled))


@dataclass(frozen=True, eq=False)
class _Tile:
    """Rows of a stretch that are filled with constants, or with an input, alone.

    Parameters
    ----------
    content : equal for tiles with the same data.
    """

    instance: Instance
    content: object
    is_narrow: bool
    is_input: bool


def _tiles(
    part: Stretch,
    constants: Collection[str],
    memories: Collection[Memory],
    inputs: Collection[str],
) -> Iterator[_Tile]:
    """Those of a stretch, in the order of their first LOADs. All of a tile is loaded before it is
    read, and no other stretch reads it."""
    loads: dict[Instance, list[SegmentInstruction]] = {}
    read: set[Instance] = set()
    others: set[Instance] = set()
    for _, item in part.items:
        for access in item.rows:
            instance = access.instance
            if instance.memory not in memories:
                continue
            if not access.writes:
                read.add(instance)
            elif instance in read or (item.tensor not in constants and item.tensor not in inputs):
                others.add(instance)
            else:
                loads.setdefault(instance, []).append(item)
    for instance, items in loads.items():
        if instance in others or instance in part.kept:
            continue
        content = tuple((x.tensor, frozenset(x.template.values.items())) for x in items)
        is_input = [x.tensor in inputs for x in items]
        if any(is_input) != all(is_input):
            continue
        kinds = {x.template.values.get("memory", 0) for x in items}
        is_narrow = LoadMemory.WGT_NARROW in kinds
        yield _Tile(instance, (instance.rows, content), is_narrow, all(is_input))


def _chosen(
    parts: Iterable[Iterator[_Tile]], rows: Mapping[Memory, int]
) -> list[dict[Instance, Instance]]:
    """For each stretch, the tiles that are kept, with what stands for them.

    Layers of one kind share their instances, and each keeps its own constants.
    """
    found: dict[object, list[tuple[int, float, _Tile]]] = {}
    chosen: list[dict[Instance, Instance]] = []
    for number, part in enumerate(parts):
        tiles = list(part)
        chosen.append({})
        totals, begun = dict.fromkeys(rows, 0), dict.fromkeys(rows, 0)
        for tile in tiles:
            totals[tile.instance.memory] += tile.instance.rows
        for tile in tiles:
            memory = tile.instance.memory
            begun[memory] += tile.instance.rows
            place = begun[memory] / totals[memory]
            found.setdefault((memory, tile.content), []).append((number, place, tile))
    left = dict(rows)
    for same in sorted(found.values(), key=_rank):
        instance = same[0][2].instance
        if _saved(same) and instance.rows <= left[instance.memory]:
            left[instance.memory] -= instance.rows
            lasting = replace(instance)
            for number, _, tile in same:
                chosen[number][tile.instance] = lasting
    return chosen


def _rank(same: Sequence[tuple[int, float, _Tile]]) -> tuple[float, float, int]:
    """Tiles with the same constants that save more for a row come first, then the first ones of
    their layer."""
    number, place, _ = same[0]
    return -_saved(same), place, number


def _saved(same: Sequence[tuple[int, float, _Tile]]) -> float:
    """LOADs of 8 bits that keeping the rows of such tiles saves."""
    tile = same[0][2]
    return (len(same) - tile.is_input) * (0.5 if tile.is_narrow else 1)
