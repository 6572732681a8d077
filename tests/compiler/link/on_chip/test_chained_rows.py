"""Parts of a layer's results that stay in OUT for the next layer."""

from collections.abc import Sequence

import pytest

from daedal.compiler.codegen.segment import Instance, RowAccess, SegmentInstruction
from daedal.compiler.link.on_chip.chained_rows import ChainedRows, chain_parts
from daedal.compiler.link.ordering import chain_tiles as ordering
from daedal.compiler.link.ordering.chain_tiles import chain_layers, chain_tiles
from daedal.compiler.link.ordering.tiles import Words
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory
from daedal.isa.table import GemmMode, LoadMemory, Opcode, OutMemory, Unit
from daedal.isa.variant import Variant, load_variant
from tests.compiler.link.on_chip.test_kept_results import BEATS, SMALL, stored, written

Items = list[SegmentInstruction]


def computed(*tiles: Sequence[int], width: int = 4) -> Items:
    """Tiles of a tensor of two blocks of `width` rows each, given by first row and count: the rows
    of both blocks."""
    items = []
    for first, count in tiles:
        tile = Instance("p", Memory.OUT, 2 * count)
        items += [written(tile, (2, count), (count, 1)), stored(tile, first, 2, count, width)]
    return items


def multiplied(*tiles: Sequence[int], width: int = 4, tensor: str = "t") -> Items:
    """Layers that load the same rows and multiply them, a tile for each."""
    items = []
    for first, count in tiles:
        x = Instance("x", Memory.INP, 2 * count)
        a, y = (Instance(name, kind, count) for name, kind in _RESULTS)
        load = Instruction.of(
            Opcode.LOAD, memory=LoadMemory.INP, offset_beats=first * BEATS, blocks=2, rows=1,
            cols=count, block_stride_beats=width * BEATS,
        )  # fmt: skip
        gemm = Instruction.of(
            Opcode.GEMM, extent0=1, extent1=count, inp_factor1=1, acc_factor1=1, extent2=2,
            inp_factor2=count, wgt_factor2=1,
        )  # fmt: skip
        store = Instruction.of(
            Opcode.STORE, memory=OutMemory.OUT, offset_beats=first * BEATS, blocks=1, rows=1,
            cols=count,
        )  # fmt: skip
        all_rows = ((0, 2 * count),)
        accesses = (
            RowAccess(a, "acc_base", ((0, count),), reads=True, writes=True),
            RowAccess(x, "inp_base", all_rows, reads=True),
        )
        items += [
            SegmentInstruction(load, (RowAccess(x, "row", all_rows, writes=True),), tensor),
            SegmentInstruction(gemm, accesses, uops=((0, 0, 0, 1),)),
            written(y, (1, count), (0, 1)),
            SegmentInstruction(store, (RowAccess(y, "row", ((0, count),), reads=True),), "u"),
        ]
    return items


_RESULTS = (("a", Memory.ACC), ("y", Memory.OUT))


def chained_rows(first: Items, second: Items, variant: Variant) -> ChainedRows | None:
    parts = chain_parts(first, second, variant, Words(variant, {}))
    return None if parts is None else parts.rows()


def test_each_tile_is_a_part() -> None:
    found = chained_rows(computed((0, 2), (2, 2)), multiplied((0, 2), (2, 2)), SMALL)
    assert found is not None
    assert [part.rows for part in found.parts] == [4, 4]
    assert not any(item.unit is Unit.LOAD for item in found.second)
    products = [item for item in found.second if item.unit is Unit.GEMM]
    assert [item.template.mode for item in products] == [GemmMode.DENSE_OUT] * 2
    assert [item.rows[1].instance for item in products] == list(found.parts)
    stores = [item for item in found.first if item.unit is Unit.STORE]
    assert [item.rows[0].instance for item in stores] == list(found.parts)


def test_tiles_of_different_sizes_share_a_part() -> None:
    """Two tiles of one row are what a tile of the second layer reads."""
    first = computed((0, 1), (1, 1), (2, 2))
    found = chained_rows(first, multiplied((0, 2), (2, 2)), SMALL)
    assert found is not None
    one, two = found.parts
    stores = [item for item in found.first if item.unit is Unit.STORE]
    assert [item.rows[0].instance for item in stores] == [one, one, one, one, two]
    # Memory has the rows of one block side by side, and so has the part.
    assert [item.template.row for item in stores] == [0, 2, 1, 3, 0]


def test_overlapping_reads_make_one_part() -> None:
    first = computed((0, 1), (1, 1), (2, 1), (3, 1))
    found = chained_rows(first, multiplied((0, 3), (1, 3)), SMALL)
    assert found is not None
    assert [part.rows for part in found.parts] == [8]
    assert chain_tiles(found.first, found.second, found.parts, SMALL) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (computed((0, 4)), multiplied((0, 2), (2, 3))),  # rows that nobody has stored
        (computed((0, 4)), multiplied((0, 4), tensor="v")),  # another tensor
        (computed((0, 4)) + multiplied((0, 4)), multiplied((0, 4))),  # two results
    ],
)
def test_nothing_to_chain(first: Items, second: Items) -> None:
    """Known before rows are numbered."""
    assert chain_parts(first, second, SMALL, Words(SMALL, {})) is None


def test_rows_of_accumulators_are_no_results_to_chain() -> None:
    """Not even those of one tile."""
    first = computed((0, 2), (2, 2))
    *others, last = first
    wide = SegmentInstruction(last.template.replace(memory=OutMemory.ACC), last.rows, last.tensor)
    assert chained_rows(first, multiplied((0, 2), (2, 2)), SMALL) is not None
    assert chained_rows([*others, wide], multiplied((0, 2), (2, 2)), SMALL) is None


def test_a_machine_without_the_port() -> None:
    assert chained_rows(computed((0, 4)), multiplied((0, 4)), load_variant("tiny")) is None


def order(tiles: Sequence[Sequence[int]], later: Sequence[Sequence[int]]) -> str:
    """The layer of every tile, in the order of their STOREs of whole tiles."""
    found = chained_rows(computed(*tiles, width=8), multiplied(*later, width=8), SMALL)
    assert found is not None
    mixed = chain_tiles(found.first, found.second, found.parts, SMALL)
    assert mixed is not None
    return "".join(str(which) for which, item in mixed if item.unit is Unit.ALU)


def test_the_first_layer_is_a_part_ahead() -> None:
    tiles = [(0, 2), (2, 2), (4, 2), (6, 2)]
    assert order(tiles, tiles) == "00101011"
    halves = [(n, 1) for n in range(8)]
    assert order(halves, tiles) == "000010010011"


def test_tiles_may_have_another_order() -> None:
    """The second layer's decides; the first tile, which may load what all share, stays first."""
    tiles = [(0, 2), (4, 2), (2, 2), (6, 2)]
    assert order(tiles, sorted(tiles)) == "00101011"
    found = chained_rows(computed((4, 4), (0, 4), width=8), multiplied((0, 4), (4, 4), width=8),
                         SMALL)  # fmt: skip
    assert found is not None
    assert chain_tiles(found.first, found.second, found.parts, SMALL) is None


def test_layers_are_chained_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = [(n, 20) for n in range(0, 200, 20)]
    layers = [computed(*tiles, width=200), multiplied(*tiles, width=200)]
    words = Words(SMALL, {})
    result, chains = chain_layers(layers, (), words, SMALL)
    assert list(chains) == [0] and len(chains[0]) == 10
    assert not any(item.unit is Unit.LOAD for item in result[1])
    assert chain_layers(layers, (), words, SMALL, apart=[0]) == (layers, {})
    monkeypatch.setattr(ordering, "PART_CYCLES", 1000)
    assert chain_layers(layers, (), words, SMALL) == (layers, {})


def test_small_tensors_may_stay_as_a_whole() -> None:
    layers = [computed((0, 2), (2, 2)), multiplied((0, 2), (2, 2))]
    assert chain_layers(layers, (), Words(SMALL, {}), SMALL) == (layers, {})


def test_chains_of_long_layers_beat_whole_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A larger OUT, which would have all of the result, does not make the layers take turns."""
    tiles = [(n, 20) for n in range(0, 200, 20)]
    once = multiplied(*tiles, width=200)
    twice = [x for item in once for x in [item] * (1 + (item.unit is Unit.GEMM))]
    layers = [computed(*tiles, width=200), twice]
    monkeypatch.setattr(ordering, "_fits_as_a_whole", lambda _parts, _variant: True)
    _, chains = chain_layers(layers, (), Words(SMALL, {}), SMALL)
    assert list(chains) == [0]
    monkeypatch.setattr(ordering, "PART_CYCLES", 1000)
    assert chain_layers(layers, (), Words(SMALL, {}), SMALL) == (layers, {})
