"""Residual streams in the accumulators: fewer LOADs, the same results under any interleaving."""

from collections.abc import Callable
from unittest import mock

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact, Launch
from daedal.checking.layer_check import check_layers
from daedal.compiler.codegen.segment import Instance, RowAccess, SegmentInstruction
from daedal.compiler.link.on_chip.forward_rows import forward_rows
from daedal.compiler.link.on_chip.resident_rows import SHARE, resident_rows
from daedal.compiler.link.ordering import follow_tiles, interleave
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import AluOp, LoadMemory, Opcode, OutMemory
from daedal.isa.variant import load_variant
from daedal.isa.verifier import verify
from tests.support.interleaving import check_interleavings

ROWS = load_variant("vta").replace("rows", tables=4, lane_reductions=True, wide_requantize=True)
CHANNELS = 32
ROW_BEATS = scratchpad(ROWS, Memory.ACC).row_beats(ROWS)


def residual_network(tokens: int, norm: str = "LayerNormalization") -> onnx.ModelProto:
    """Two sums of 16 bits around products, with a norm before each and behind the last one."""
    rng = np.random.default_rng(tokens)
    m = QdqModel(23 if norm == "RMSNormalization" else 21)

    def product(x: str) -> str:
        w = m.weights(rng.integers(-60, 61, (CHANNELS, CHANNELS)).astype(np.int8), 0.004)
        return m.requantized(m.op("MatMul", x, w), 0.0004, 0, "int16")

    def normed(x: str, output: str | None = None) -> str:
        gain = m.constant(rng.uniform(0.5, 2, CHANNELS).astype(np.float32))
        result = m.op(norm, x, gain, axis=-1, epsilon=1e-5)
        return m.requantized(result, 0.03, 3, output=output)

    x = m.requantized(m.input("x", (1, tokens, CHANNELS)), 0.02, -5)
    stream = product(x)
    for _ in range(2):
        total = m.op("Add", stream, product(normed(stream)))
        stream = m.requantized(total, 0.0005, 0, "int16")
    return m.model(normed(stream, "y"))


def compiled(model: onnx.ModelProto) -> tuple[Artifact, Launch]:
    artifact = daedal.compile(model.SerializeToString(), ROWS, host=None, cache=False)
    (launch,) = (part for part in artifact.parts if isinstance(part, Launch))
    verify(launch.program)
    return artifact, launch


def wide_loads(launch: Launch) -> int:
    items = launch.program.instructions
    return sum(i.opcode is Opcode.LOAD and i.memory == LoadMemory.ACC for i in items)


def loaded_rows(launch: Launch) -> int:
    """Rows of these: how many rows an instruction loads depends on the tiles."""
    items = launch.program.instructions
    loads = (i for i in items if i.opcode is Opcode.LOAD and i.memory == LoadMemory.ACC)
    return sum(i.blocks * i.rows * i.cols for i in loads)


@pytest.fixture
def feeds() -> Callable[[int], dict[str, np.ndarray]]:
    return lambda tokens: {
        "x": np.random.default_rng(1).normal(0, 1, (1, tokens, CHANNELS)).astype(np.float32)
    }


@pytest.mark.parametrize("norm", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize("tokens", [3, 25, 64])
def test_small_streams_are_never_loaded(tokens: int, norm: str, feeds) -> None:
    model = residual_network(tokens, norm)
    artifact, launch = compiled(model)
    assert wide_loads(launch) == 0
    found = check_layers(artifact, model.SerializeToString(), feeds(tokens))
    assert found.passed, found.first_difference


def test_large_streams_are_loaded(feeds) -> None:
    tokens = scratchpad(ROWS, Memory.ACC).depth_rows // SHARE
    model = residual_network(tokens)
    artifact, launch = compiled(model)
    assert wide_loads(launch) > 0
    found = check_layers(artifact, model.SerializeToString(), feeds(tokens))
    assert found.passed, found.first_difference


def test_norms_find_large_streams_in_the_accumulators(feeds) -> None:
    """Where their tiles match those of the sum before."""
    tokens = scratchpad(ROWS, Memory.ACC).depth_rows // SHARE
    model = residual_network(tokens)
    _, launch = compiled(model)
    with mock.patch.object(follow_tiles, "forward_rows", return_value=None):
        _, apart = compiled(model)
    assert loaded_rows(launch) < loaded_rows(apart)


def test_the_same_under_any_interleaving(feeds) -> None:
    model = residual_network(25)
    _, launch = compiled(model)
    (result,) = launch.program.outputs
    assert result.size_bytes > 0
    check_interleavings(launch.program, np.random.default_rng(3), 6)


def test_fewer_cycles(feeds) -> None:
    model = residual_network(50)
    artifact, _ = compiled(model)
    with mock.patch.object(interleave, "resident_rows", lambda layers, *_: (layers, frozenset())):
        apart, _ = compiled(model)
    cycles = [
        daedal.simulate(item, feeds(50), device="timing").profiles[0].cycles
        for item in (artifact, apart)
    ]
    assert cycles[0] < cycles[1]


def transfer(
    opcode: Opcode, instance: Instance, first: int, count: int, row: int = 0, tensor: str = "t"
) -> SegmentInstruction:
    """Rows from `row` on of an instance, and rows from `first` on of a tensor."""
    load = opcode is Opcode.LOAD
    template = Instruction.of(
        opcode,
        memory=LoadMemory.ACC if load else OutMemory.ACC,
        row=row,
        offset_beats=first * ROW_BEATS,
        blocks=1,
        rows=1,
        cols=count,
    )
    access = RowAccess(instance, "row", ((row, row + count),), reads=not load, writes=load)
    return SegmentInstruction(template, (access,), tensor)


def operation(instance: Instance, *, reads: bool = True) -> SegmentInstruction:
    """In place on all rows."""
    runs = ((0, instance.rows),)
    template = Instruction.of(Opcode.ALU, operation=AluOp.ADD, use_immediate=1, destination=1)
    accesses = (
        RowAccess(instance, "dst_base", runs, writes=True),
        RowAccess(instance, "src_base", runs, reads=reads),
    )
    return SegmentInstruction(template, accesses, uops=((0, 0, 0),))


def rows(name: str, count: int) -> Instance:
    return Instance(name, Memory.ACC, count)


def test_parts_of_a_buffer() -> None:
    """Two tiles that the next layer loads together become parts of its buffer."""
    a, b, c = rows("a", 4), rows("b", 4), rows("c", 8)
    first = [
        operation(a),
        transfer(Opcode.STORE, a, 0, 4),
        operation(b),
        transfer(Opcode.STORE, b, 4, 4),
    ]
    second = [transfer(Opcode.LOAD, c, 0, 8), operation(c)]
    found = forward_rows(first, second, ROWS, {})
    assert found is not None
    assert found[1] == second[1:]
    assert {access.instance for item in found[0] for access in item.rows} == {c}
    bases = [item.template.values.get("dst_base", 0) for item in found[0][::2]]
    assert bases == [0, 4]
    assert [item.rows[0].runs for item in found[0][1::2]] == [((0, 4),), ((4, 8),)]


def test_buffers_that_do_not_match() -> None:
    a, c = rows("a", 4), rows("c", 4)
    stored = [operation(a), transfer(Opcode.STORE, a, 0, 4)]
    loaded = [transfer(Opcode.LOAD, c, 0, 4), operation(c)]
    assert forward_rows(stored, loaded, ROWS, {}) is not None
    half = [operation(a), transfer(Opcode.STORE, a, 0, 2)]
    assert forward_rows(half, loaded, ROWS, {}) is None, "rows that nothing stored"
    assert forward_rows([*stored, operation(a)], loaded, ROWS, {}) is None, "written again"
    used = [operation(c, reads=False), *loaded]
    assert forward_rows(stored, used, ROWS, {}) is None, "used before"
    other = [transfer(Opcode.LOAD, c, 0, 4, tensor="u"), operation(c)]
    assert forward_rows(stored, other, ROWS, {}) is None, "another tensor"
    turned = [transfer(Opcode.LOAD, c, 2, 2), transfer(Opcode.LOAD, c, 0, 2, row=2), operation(c)]
    assert forward_rows(stored, turned, ROWS, {}) is None, "in another order"


def test_readers_of_a_resident_tensor() -> None:
    """An operation that can read elsewhere does; before any other one, the rows are copied."""
    a, c, d = rows("a", 4), rows("c", 4), rows("d", 4)
    layers = [
        [operation(a), transfer(Opcode.STORE, a, 0, 4)],
        [transfer(Opcode.LOAD, c, 0, 4), operation(c)],
        [transfer(Opcode.LOAD, d, 0, 4), operation(d, reads=False)._replace(uops=None)],
    ]
    in_place = layers[2][1]
    layers[2][1] = in_place._replace(
        rows=(in_place.rows[0]._replace(reads=True),), template=Instruction.of(Opcode.ALU)
    )
    found, kept = resident_rows(layers, ROWS, {})
    (instance,) = kept
    assert instance.rows == 4
    assert found[0][0].rows[0].instance is instance
    (direct,) = found[1]
    assert [access.instance for access in direct.rows] == [c, instance]
    copy, unchanged = found[2]
    assert copy.template.operation == AluOp.MOV
    assert [access.instance for access in copy.rows] == [d, instance]
    assert unchanged == layers[2][1]


def test_a_tensor_that_two_layers_store_is_not_resident() -> None:
    a, b, c = rows("a", 4), rows("b", 4), rows("c", 8)
    layers = [
        [operation(a), transfer(Opcode.STORE, a, 0, 4)],
        [operation(b), transfer(Opcode.STORE, b, 4, 4)],
        [transfer(Opcode.LOAD, c, 0, 8), operation(c)],
    ]
    found, kept = resident_rows(layers, ROWS, {})
    assert not kept
    assert found == layers


def test_only_the_last_operation_writes_the_rows_that_stay() -> None:
    """The tile keeps its own rows for what comes before, so that tiles take turns in the halves."""
    a, c = rows("a", 4), rows("c", 4)
    before, last, store = operation(a), operation(a), transfer(Opcode.STORE, a, 0, 4)
    layers = [[before, last, store], [transfer(Opcode.LOAD, c, 0, 4), operation(c)]]
    found, (instance,) = resident_rows(layers, ROWS, {})
    assert [access.instance for access in found[0][0].rows] == [a, a]
    assert [access.instance for access in found[0][1].rows] == [instance, a]
    assert [access.instance for access in found[0][2].rows] == [instance]


def test_rows_of_a_tile_that_are_not_stored_do_not_stay() -> None:
    """A norm's tile has padding between its blocks; its result has none."""
    a, b, c = rows("a", 6), rows("b", 4), rows("c", 8)
    norm = operation(a)
    requantized = operation(a)._replace(
        rows=(
            RowAccess(a, "dst_base", ((0, 4),), writes=True),
            RowAccess(a, "src_base", ((0, 2), (3, 5)), reads=True),
        )
    )
    first = [
        *(norm, requantized, transfer(Opcode.STORE, a, 0, 4)),
        *(operation(b), transfer(Opcode.STORE, b, 4, 4)),
    ]
    second = [transfer(Opcode.LOAD, c, 0, 8), operation(c)]
    found, (instance,) = resident_rows([first, second], ROWS, {})
    assert instance.rows == 8
    assert [access.instance for access in found[0][0].rows] == [a, a]
    assert [access.instance for access in found[0][1].rows] == [instance, a]
    assert found[0][4].template.row == 4, "tile behind tile"
    assert [access.instance for access in found[1][0].rows] == [c, instance]
    wider = requantized._replace(
        rows=(requantized.rows[0]._replace(runs=((0, 5),)), requantized.rows[1])
    )
    for last in (wider, norm):
        items = [norm, last, transfer(Opcode.STORE, a, 0, 4)]
        second = [transfer(Opcode.LOAD, b, 0, 4), operation(b)]
        assert not resident_rows([items, second], ROWS, {})[1], "it writes other rows, too"


def test_a_result_that_is_read_again_stays_with_its_tile() -> None:
    a, b, c = rows("a", 4), rows("b", 4), rows("c", 4)
    reader = operation(a)._replace(
        rows=(
            RowAccess(b, "dst_base", ((0, 4),), writes=True),
            RowAccess(a, "src_base", ((0, 4),), reads=True),
        )
    )
    second = [transfer(Opcode.LOAD, c, 0, 4), operation(c)]
    added = operation(a)
    added = added._replace(rows=(added.rows[0]._replace(reads=True), added.rows[1]))
    store = transfer(Opcode.STORE, a, 0, 4)
    for items in ([operation(a), reader, store], [operation(a), added, store]):
        found, (instance,) = resident_rows([items, second], ROWS, {})
        here = {access.instance for item in found[0] for access in item.rows} - {b}
        assert here == {instance}, "the whole tile"
