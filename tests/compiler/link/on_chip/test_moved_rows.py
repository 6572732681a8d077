"""Layers that only move elements become STOREs of rows that are on chip."""

from collections import Counter
from unittest import mock

import numpy as np
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Launch
from daedal.checking.layer_check import check_layers
from daedal.compiler.codegen.segment import Instance, RowAccess, SegmentInstruction
from daedal.compiler.layers import launch
from daedal.compiler.link.on_chip.kept_results import keep_results
from daedal.compiler.link.on_chip.moved_rows import MOST_STORES
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import AluOp, GemmMode, LoadMemory, Opcode, OutMemory
from daedal.isa.variant import load_variant
from daedal.isa.verifier import verify
from tests.support.decoders import SmallDecoder

SMALL = load_variant("tiny").replace("small", gemm_reads_out=True)
BEATS = scratchpad(SMALL, Memory.OUT).row_beats(SMALL)
ROWS = 8
"""Of the tensor that is moved."""


def requantized(target: Instance, source: Instance) -> SegmentInstruction:
    template = Instruction.of(
        Opcode.ALU, operation=AluOp.REQUANTIZE, destination=OutMemory.OUT, extent0=1, extent1=1,
        extent2=target.rows, dst_factor2=1, src_factor2=1, low=-128, high=127, saturate=1,
    )  # fmt: skip
    accesses = (
        RowAccess(target, "dst_base", ((0, target.rows),), writes=True),
        RowAccess(source, "src_base", ((0, source.rows),), reads=True),
    )
    return SegmentInstruction(template, accesses, uops=((0, 0, 0),))


def stored(tile: Instance, tensor: str, first: int, stride: int = 1) -> SegmentInstruction:
    """All rows of a tile, each `stride` rows of memory behind the one before."""
    template = Instruction.of(
        Opcode.STORE, memory=OutMemory.OUT, offset_beats=first * BEATS, blocks=1, rows=tile.rows,
        cols=1, row_stride_beats=stride * BEATS,
    )  # fmt: skip
    return SegmentInstruction(
        template, (RowAccess(tile, "row", ((0, tile.rows),), reads=True),), tensor
    )


def computed() -> list[SegmentInstruction]:
    """A layer that computes `y` in one tile."""
    tile, sums = Instance("p", Memory.OUT, ROWS), Instance("s", Memory.ACC, ROWS)
    return [requantized(tile, sums), stored(tile, "y", 0)]


def moving(
    begin: int, count: int, pads: int = 0, value: int = 5, stride: int = 1, into: int = 3
) -> list[SegmentInstruction]:
    """A layer that stores `count` rows of `y`, and `pads` rows of padding behind them, in `z`
    from row `into` on."""
    acc, out = (Instance("a", memory, count + pads) for memory in (Memory.ACC, Memory.OUT))
    load = Instruction.of(
        Opcode.LOAD, memory=LoadMemory.ACC_NARROW, offset_beats=begin * BEATS, blocks=1, rows=1,
        cols=count, pad_right=pads, pad_value=value,
    )  # fmt: skip
    par = Instance("par", Memory.PAR, 1)
    one = Instruction.of(Opcode.LOAD, memory=LoadMemory.PAR, blocks=1, rows=1, cols=1)
    return [
        SegmentInstruction(one, (RowAccess(par, "row", ((0, 1),), writes=True),), "same"),
        SegmentInstruction(load, (RowAccess(acc, "row", ((0, acc.rows),), writes=True),), "y"),
        requantized(out, acc),
        stored(out, "z", into, stride),
    ]


def transfers(items: list[SegmentInstruction]) -> list[tuple[str, int, int, int]]:
    """Instance, first row, first row of memory, and rows of each STORE."""
    return [
        (i.rows[0].instance.name, i.template.row, i.template.offset_beats // BEATS, i.template.cols)
        for i in items
        if i.template.opcode is Opcode.STORE
    ]


def test_padding() -> None:
    layers = [computed(), moving(0, ROWS, pads=3)]
    (_, moved), (whole,) = keep_results(layers, SMALL, {}, {1})
    fill, *stores = moved
    assert [fill.template.operation, fill.template.use_immediate] == [AluOp.MOV, 1]
    assert [fill.template.immediate, fill.template.extent2] == [5, 3]
    assert fill.rows[0].instance.rows == 3 and fill.rows[0].writes
    assert transfers(stores) == [("y", 0, 3, ROWS), ("y.padding", 0, 3 + ROWS, 3)]
    assert stores[0].rows[0].instance is whole
    assert {item.tensor for item in stores} == {"z"}


def test_a_part() -> None:
    (_, moved), _ = keep_results([computed(), moving(2, 4)], SMALL, {}, {1})
    assert transfers(moved) == [("y", 2, 3, 4)]
    assert len(moved) == 1


def test_rows_apart_in_memory() -> None:
    (_, moved), _ = keep_results([computed(), moving(0, 4, stride=2)], SMALL, {}, {1})
    assert transfers(moved) == [("y", row, 3 + 2 * row, 1) for row in range(4)]


def changed(number: int, **fields: int) -> list[SegmentInstruction]:
    items = moving(0, ROWS)
    items[number] = items[number]._replace(template=items[number].template.replace(**fields))
    return items


def two_values() -> list[SegmentInstruction]:
    return [*moving(0, 4, pads=1), *moving(4, 4, pads=1, value=6, into=8)]


@pytest.mark.parametrize(
    "layer",
    [
        changed(2, operation=int(AluOp.SHR)),
        changed(2, destination=int(OutMemory.ACC)),
        changed(1, memory=int(LoadMemory.ACC)),
        changed(1, offset_beats=BEATS),
        two_values(),
    ],
)
def test_other_layers_stay(layer: list[SegmentInstruction]) -> None:
    layers = [computed(), layer]
    assert keep_results(layers, SMALL, {}, {1}) == (layers, frozenset())


def test_a_layer_that_is_no_move_stays() -> None:
    layers = [computed(), moving(0, ROWS)]
    assert keep_results(layers, SMALL, {}) == (layers, frozenset())


def test_not_with_many_stores() -> None:
    count = MOST_STORES + 1
    tile, sums = Instance("p", Memory.OUT, count), Instance("s", Memory.ACC, count)
    layers = [[requantized(tile, sums), stored(tile, "y", 0)], moving(0, count, stride=2)]
    assert keep_results(layers, SMALL, {}, {1}) == (layers, frozenset())


def test_a_move_of_what_was_moved() -> None:
    """The first one's result is in no tile of its own."""
    second = [
        item._replace(tensor={"y": "z", "z": "u"}.get(item.tensor or "", item.tensor))
        for item in moving(3, ROWS)
    ]
    layers = [computed(), moving(0, ROWS), second]
    (_, moved, again), kept = keep_results(layers, SMALL, {}, {1, 2})
    assert transfers(moved) == [("y", 0, 3, ROWS)]
    assert again == second and len(kept) == 1


def multiplied(
    first: int, count: int, tensor: str = "z", mode: int = 0
) -> list[SegmentInstruction]:
    """A LOAD of some rows of a tensor, and products with them."""
    x, a, w = (
        Instance(name, memory, rows)
        for name, memory, rows in (
            ("x", Memory.INP, count), ("sums", Memory.ACC, count), ("w", Memory.WGT, 1)
        )
    )  # fmt: skip
    load = Instruction.of(
        Opcode.LOAD, memory=LoadMemory.INP, offset_beats=first * BEATS, blocks=1, rows=1, cols=count
    )
    gemm = Instruction.of(
        Opcode.GEMM, mode=mode, extent0=1, extent1=1, extent2=count, inp_factor2=1, acc_factor2=1
    )
    runs = ((0, count),)
    accesses = (
        RowAccess(a, "acc_base", runs, reads=True, writes=True),
        RowAccess(x, "inp_base", runs, reads=True),
        RowAccess(w, "wgt_base", ((0, 1),), reads=True),
    )
    return [
        SegmentInstruction(load, (RowAccess(x, "row", runs, writes=True),), tensor),
        SegmentInstruction(gemm, accesses, uops=((0, 0, 0, 1),)),
    ]


def test_products_with_a_part() -> None:
    """They have the rows that `y` has in OUT."""
    layers = [computed(), moving(2, 4), multiplied(3, 4)]
    (_, moved, (product,)), (whole,) = keep_results(layers, SMALL, {}, {1})
    assert transfers(moved) == [("y", 2, 3, 4)] and len(moved) == 1
    assert product.template.mode == GemmMode.DENSE_OUT
    assert product.rows[1].instance is whole and product.rows[1].runs == ((2, 6),)
    assert product.template.inp_base == 2


@pytest.mark.parametrize(
    ("moved", "reader"),
    [
        (moving(2, 4), multiplied(2, 4)),
        (moving(2, 4), multiplied(3, 4, mode=int(GemmMode.DEPTHWISE))),
        (moving(2, 4), multiplied(3, 4) + multiplied(2, 4)),
        (moving(4, 4, pads=2), multiplied(3, 6)),
    ],
)
def test_not_where_products_need_other_rows(
    moved: list[SegmentInstruction], reader: list[SegmentInstruction]
) -> None:
    """Some that the layer does not store, those of another mode, or padding. They may find its
    result in OUT, where it has computed it."""
    layers = [computed(), moved, reader]
    (first, same, _), kept = keep_results(layers, SMALL, {}, {1})
    assert first == layers[0] and {whole.name for whole in kept} <= {"z"}
    assert [i.template.opcode for i in same] == [i.template.opcode for i in moved]


def test_other_products_have_the_rows() -> None:
    """The layer that moves them stays, as products with its result cannot have them."""
    layers = [computed(), moving(2, 4), multiplied(2, 4), multiplied(0, ROWS, "y")]
    (_, moved, reader, (product,)), (whole,) = keep_results(layers, SMALL, {}, {1})
    assert (moved, reader) == (layers[1], layers[2])
    assert product.template.mode == GemmMode.DENSE_OUT
    assert product.rows[1].instance is whole


def test_not_for_as_long_as_what_is_moved_is_read() -> None:
    """Layers between need the rows of OUT. The result of the layer that moves is kept."""
    depth = scratchpad(SMALL, Memory.OUT).depth_rows
    large, sums = (Instance("l", memory, depth // 2 - 2) for memory in (Memory.OUT, Memory.ACC))
    between = [requantized(large, sums), stored(large, "u", 0)]
    layers = [computed(), multiplied(0, ROWS, "y"), moving(2, 1), between, multiplied(3, 1)]
    (_, first, moved, _, second), kept = keep_results(layers, SMALL, {}, {2})
    assert {whole.name: whole.rows for whole in kept} == {"y": ROWS, "z": 1}
    assert [items[0].template.mode for items in (first, second)] == [GemmMode.DENSE_OUT] * 2
    assert len(moved) == 4


@pytest.mark.parametrize("multiply", [False, True])
@pytest.mark.parametrize("move", ["Pad", "Slice", "Slice and scale"])
def test_a_network(move: str, multiply: bool) -> None:
    """What is moved is an output of the network, or multiplied; a slice with another scale is
    computed, and so is a pad whose result is multiplied."""
    rng = np.random.default_rng(4)
    m = QdqModel()

    def product(x: str) -> str:
        values = rng.integers(-60, 61, (16, 16, 1, 1)).astype(np.int8)
        x = m.op("Conv", x, m.weights(values, 0.004))
        return m.requantized(x, 0.02, 2)

    def whole(*values: int) -> str:
        return m.constant(np.array(values, dtype=np.int64))

    x = product(m.requantized(m.input("x", (1, 16, 12, 1)), 0.02, -5))
    if move == "Pad":
        x = m.op("Pad", x, whole(0, 0, 1, 0, 0, 0, 3, 0), m.constant(np.float32(0.4)))
    else:
        x = m.op("Slice", x, whole(2), whole(9), whole(2))
    x = m.requantized(x, 0.03 if "scale" in move else 0.02, 2)
    model = m.model(product(x) if multiply else x)
    artifact = daedal.compile(model.SerializeToString(), SMALL, host=None, cache=False)
    (part,) = (part for part in artifact.parts if isinstance(part, Launch))
    verify(part.program)
    items = part.program.instructions
    narrow = [i for i in items if i.opcode is Opcode.LOAD and i.memory == LoadMemory.ACC_NARROW]
    assert bool(narrow) == ("scale" in move or (move == "Pad" and multiply))
    feeds = {"x": rng.normal(size=(1, 16, 12, 1)).astype(np.float32)}
    found = check_layers(artifact, model.SerializeToString(), feeds)
    assert found.passed, found.first_difference


@pytest.mark.heavy(8)
def test_rows_of_a_decoder_are_stored_in_its_caches() -> None:
    """From where they were computed. Only the residual stream is loaded into the accumulators."""
    model = SmallDecoder(layers=1).quantized()
    states = {"k_cache_*": "k_new_*", "v_cache_*": "v_new_*"}

    def instructions() -> Counter[tuple[Opcode, int]]:
        artifact = daedal.compile(model, "attention", states=states, cache=False, cpu_levels=())
        verify(artifact.program)
        items = artifact.program.instructions
        return Counter((item.opcode, item.values.get("memory", 0)) for item in items)

    moved = instructions()
    with mock.patch.object(launch, "is_move", return_value=False):
        copied = instructions()
    loads = Opcode.LOAD, LoadMemory.ACC_NARROW
    assert moved[loads] == copied[loads] - len(states)
    assert moved.total() < copied.total()
