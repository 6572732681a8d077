"""Results that stay in OUT for products: fewer LOADs, the same results under any interleaving."""

from unittest import mock

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact, Launch
from daedal.checking.layer_check import check_layers
from daedal.compiler.codegen.segment import Instance, RowAccess, SegmentInstruction
from daedal.compiler.link.on_chip import resident_rows
from daedal.compiler.link.on_chip.kept_results import keep_results
from daedal.compiler.link.on_chip.renumber import MOST_PIECES
from daedal.compiler.link.ordering import interleave
from daedal.compiler.link.ordering.tiles import Touched, Words
from daedal.compiler.quantization import quantize_model
from daedal.isa.hazards import NO_INSTRUCTION
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import GemmMode, LoadMemory, Opcode, OutMemory
from daedal.isa.variant import Variant, load_variant
from daedal.isa.verifier import verify
from tests.compiler.quantization.float_transformers import FloatTransformer
from tests.support.interleaving import check_interleavings

DIRECT = load_variant("attention").replace("direct", gemm_reads_out=True)
SMALL = load_variant("tiny").replace("small", gemm_reads_out=True)
BEATS = scratchpad(SMALL, Memory.OUT).row_beats(SMALL)


def chain(tokens: int, channels: int, layers: int, norm: bool = False) -> onnx.ModelProto:
    """Products one behind the other; with a norm before each, or as convolutions."""
    rng = np.random.default_rng(tokens)
    m = QdqModel(21)
    shape = (1, tokens, channels) if norm else (1, channels, tokens, 1)
    x = m.requantized(m.input("x", shape), 0.02, -5)
    for layer in range(layers):
        if norm:
            gain = m.constant(rng.uniform(0.5, 2, channels).astype(np.float32))
            x = m.op("LayerNormalization", x, gain, axis=-1, epsilon=1e-5)
            x = m.requantized(x, 0.03, 3)
            values = rng.integers(-60, 61, (channels, channels)).astype(np.int8)
            x = m.op("MatMul", x, m.weights(values, 0.004))
        else:
            values = rng.integers(-60, 61, (channels, channels, 1, 1)).astype(np.int8)
            x = m.op("Conv", x, m.weights(values, 0.004))
        x = m.requantized(x, 0.02, 2, output="y" if layer == layers - 1 else None)
    return m.model(x)


def windows(size: int, kernel: int, stride: int, groups: int) -> onnx.ModelProto:
    """Three convolutions over a square map, the second one with larger windows."""
    rng = np.random.default_rng(size)
    m = QdqModel()
    channels = 16
    x = m.requantized(m.input("x", (1, channels, size, size)), 0.02, -5)
    for layer in range(3):
        k = kernel if layer == 1 else 1
        inner = channels // groups if layer == 1 else channels
        values = rng.integers(-60, 61, (channels, inner, k, k)).astype(np.int8)
        how = {"strides": [stride, stride], "group": groups} if layer == 1 else {}
        x = m.op("Conv", x, m.weights(values, 0.004), pads=[k // 2] * 4, **how)
        x = m.requantized(x, 0.02, 2, output="y" if layer == 2 else None)
    return m.model(x)


def compiled(model: onnx.ModelProto, variant: Variant) -> tuple[Artifact, Launch]:
    artifact = daedal.compile(model.SerializeToString(), variant, host=None, cache=False)
    (launch,) = (part for part in artifact.parts if isinstance(part, Launch))
    verify(launch.program)
    return artifact, launch


def loads(launch: Launch) -> int:
    """LOADs of activations that the program computes."""
    return sum(
        item.opcode is Opcode.LOAD and item.memory == LoadMemory.INP and item.base == 3
        for item in launch.program.instructions
    )


def modes(launch: Launch) -> set[int]:
    items = launch.program.instructions
    return {item.mode for item in items if item.opcode is Opcode.GEMM}


def check(model: onnx.ModelProto, artifact: Artifact) -> None:
    (spec,) = artifact.inputs
    x = np.random.default_rng(1).normal(0, 1, spec.shape).astype(np.float32)
    found = check_layers(artifact, model.SerializeToString(), {"x": x})
    assert found.passed, found.first_difference
    assert all(tensor.difference is not None for tensor in found.tensors)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("tokens", [3, 25, 50, 64])
def test_small_tensors_are_not_loaded(tokens: int, norm: bool) -> None:
    model = chain(tokens, 64, 3, norm=norm)
    artifact, launch = compiled(model, DIRECT)
    assert loads(launch) == 0
    assert GemmMode.DENSE_OUT in modes(launch)
    check(model, artifact)


@pytest.mark.parametrize("channels", [8, 24])
def test_on_a_small_machine(channels: int) -> None:
    """Its norms run on the host; its convolutions take several tiles."""
    model = chain(20, channels, 4)
    artifact, launch = compiled(model, SMALL)
    assert GemmMode.DENSE_OUT in modes(launch)
    check(model, artifact)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("kernel", "groups"), [(3, 1), (2, 1), (3, 16)])
def test_windows(kernel: int, stride: int, groups: int) -> None:
    """Depthwise products read INP."""
    model = windows(7, kernel, stride, groups)
    artifact, launch = compiled(model, SMALL)
    assert GemmMode.DENSE_OUT in modes(launch)
    check(model, artifact)


@pytest.mark.parametrize("chained", [False, True])
def test_large_tensors_are_loaded(monkeypatch: pytest.MonkeyPatch, chained: bool) -> None:
    """Unless they stay in OUT part by part."""
    if not chained:
        monkeypatch.setattr(interleave, "chain_layers", lambda layers, *_: (list(layers), {}))
    tokens = scratchpad(DIRECT, Memory.OUT).depth_rows
    model = chain(tokens, 16, 3)
    artifact, launch = compiled(model, DIRECT)
    assert modes(launch) == {GemmMode.DENSE, *([GemmMode.DENSE_OUT] if chained else [])}
    check(model, artifact)


def test_a_machine_without_the_port() -> None:
    model = chain(20, 16, 3)
    _, launch = compiled(model, load_variant("tiny"))
    assert modes(launch) == {GemmMode.DENSE}


def test_the_same_under_any_interleaving() -> None:
    _, launch = compiled(chain(25, 32, 3, norm=True), DIRECT)
    check_interleavings(launch.program, np.random.default_rng(3), 6)


def test_fewer_cycles() -> None:
    model = chain(50, 64, 3, norm=True)
    artifact, _ = compiled(model, DIRECT)
    with mock.patch.object(interleave, "keep_results", lambda layers, *_: (layers, frozenset())):
        apart, _ = compiled(model, DIRECT)
    x = np.zeros((1, 50, 64), np.float32)
    cycles = [
        daedal.simulate(item, {"x": x}, device="timing").profiles[0].cycles
        for item in (artifact, apart)
    ]
    assert cycles[0] < cycles[1]


def written(instance: Instance, extents: tuple[int, int], factors: tuple[int, int]):
    """An operation that writes rows of OUT in two loops."""
    values = {f"extent{k + 1}": extent for k, extent in enumerate(extents)}
    values |= {f"dst_factor{k + 1}": factor for k, factor in enumerate(factors)}
    template = Instruction.of(Opcode.ALU, destination=OutMemory.OUT, extent0=1, **values)
    access = RowAccess(instance, "dst_base", ((0, instance.rows),), writes=True)
    return SegmentInstruction(template, (access,), uops=((0, 0, 0),))


def stored(instance: Instance, first: int, blocks: int, cols: int, stride: int):
    template = Instruction.of(
        Opcode.STORE, memory=OutMemory.OUT, offset_beats=first * BEATS, blocks=blocks, rows=1,
        cols=cols, block_stride_beats=stride * BEATS,
    )  # fmt: skip
    access = RowAccess(instance, "row", ((0, instance.rows),), reads=True)
    return SegmentInstruction(template, (access,), "t")


def multiplied(count: int, blocks: int = 1, times: int = 1) -> list[SegmentInstruction]:
    """A LOAD of all rows of the tensor, and products with them in one loop, for some blocks of
    outputs in another, and again in a third."""
    x = Instance("x", Memory.INP, count)
    a, w = Instance("a", Memory.ACC, blocks * count), Instance("w", Memory.WGT, blocks)
    load = Instruction.of(Opcode.LOAD, memory=LoadMemory.INP, blocks=1, rows=1, cols=count)
    gemm = Instruction.of(
        Opcode.GEMM, extent0=blocks, acc_factor0=count, wgt_factor0=1, extent1=times, extent2=count,
        inp_factor2=1, acc_factor2=1,
    )  # fmt: skip
    runs = ((0, count),)
    accesses = (
        RowAccess(a, "acc_base", ((0, a.rows),), reads=True, writes=True),
        RowAccess(x, "inp_base", runs, reads=True),
        RowAccess(w, "wgt_base", ((0, blocks),), reads=True),
    )
    return [
        SegmentInstruction(load, (RowAccess(x, "row", runs, writes=True),), "t"),
        SegmentInstruction(gemm, accesses, uops=((0, 0, 0, 1),)),
    ]


def two_tiles() -> list[SegmentInstruction]:
    """Tiles of a tensor of 8 rows, each with two rows of both halves."""
    tiles = [Instance("p", Memory.OUT, 4) for _ in range(2)]
    return [
        item
        for number, tile in enumerate(tiles)
        for item in (written(tile, (2, 2), (2, 1)), stored(tile, 2 * number, 2, 2, 4))
    ]


def test_products_follow_tiles_that_lie_apart_in_memory() -> None:
    """Their loop becomes three, over halves, tiles and rows."""
    first = two_tiles()
    (writer, (product,)), (whole,) = keep_results([first, multiplied(8)], SMALL, {})
    assert whole.rows == 8
    assert [item.template.row for item in writer[1::2]] == [0, 4]
    assert [item.template.offset_beats for item in writer[1::2]] == [0, 2 * BEATS]
    gemm = product.template
    assert gemm.mode == GemmMode.DENSE_OUT
    assert [gemm.extent0, gemm.extent1, gemm.extent2] == [2, 2, 2]
    assert [gemm.inp_factor0, gemm.inp_factor1, gemm.inp_factor2] == [2, 4, 1]
    assert [gemm.acc_factor0, gemm.acc_factor1, gemm.acc_factor2] == [4, 2, 1]


def test_tiles_that_lie_apart_in_memory_are_joined_in_its_order() -> None:
    """Where products have no loop to spare: the tiles' loops advance by other distances, and each
    STORE becomes two."""
    (writer, reader), (whole,) = keep_results([two_tiles(), multiplied(8, blocks=3)], SMALL, {})
    assert whole.rows == 8
    operations = [item.template for item in writer if item.template.opcode is Opcode.ALU]
    assert [item.dst_base for item in operations] == [0, 2]
    assert {(item.dst_factor1, item.dst_factor2) for item in operations} == {(4, 1)}
    stores = [item for item in writer if item.template.opcode is Opcode.STORE]
    places = [(item.template.row * BEATS, item.template.offset_beats) for item in stores]
    assert len(stores) == 4 and all(row == word for row, word in places)
    assert all(item.template.blocks == 1 and item.template.cols == 2 for item in stores)
    (product,) = reader
    assert product.template.mode == GemmMode.DENSE_OUT
    assert product.rows[1].instance is whole and product.rows[1].runs == ((0, 8),)
    assert product.template.extent2 == 8


def test_not_where_a_store_would_become_many() -> None:
    pieces = MOST_PIECES + 1
    tiles = [Instance("p", Memory.OUT, pieces) for _ in range(2)]
    first = [
        item
        for number, tile in enumerate(tiles)
        for item in (written(tile, (1, pieces), (0, 1)), stored(tile, number, pieces, 1, 2))
    ]
    layers = [first, multiplied(2 * pieces, blocks=3, times=2)]
    (writer, reader), kept = keep_results(layers, SMALL, {})
    assert not kept
    assert writer == first and len(reader) == 2


def padded(left: int, right: int, acc_factor: int = 1) -> list[SegmentInstruction]:
    """A LOAD of four rows and of padding on both sides, and products with all of these rows."""
    load, product = multiplied(left + 4 + right)
    template = load.template.replace(cols=4, pad_left=left, pad_right=right, pad_value=-3)
    gemm = product.template.replace(overwrite=1, acc_factor2=acc_factor)
    return [load._replace(template=template), product._replace(template=gemm)]


def one_tile() -> list[SegmentInstruction]:
    tile = Instance("p", Memory.OUT, 4)
    return [written(tile, (1, 4), (0, 1)), stored(tile, 0, 1, 4, 0)]


def test_padding_behind_the_tensor_is_written_without_memory() -> None:
    """Products with it are an instruction of their own."""
    (_, (load, results, padding)), (whole,) = keep_results([one_tile(), padded(0, 2)], SMALL, {})
    moved = load.template
    assert [moved.row, moved.blocks, moved.rows, moved.cols, moved.pad_right] == [4, 1, 1, 0, 2]
    assert moved.pad_value == -3 and load.rows[0].runs == ((4, 6),)
    assert [results.template.mode, results.template.extent2] == [GemmMode.DENSE_OUT, 4]
    assert results.rows[0].runs == results.rows[1].runs == ((0, 4),)
    assert results.rows[1].instance is whole
    gemm = padding.template
    assert [gemm.mode, gemm.extent2, gemm.acc_base, gemm.inp_base] == [GemmMode.DENSE, 2, 4, 4]
    assert padding.rows[0].runs == padding.rows[1].runs == ((4, 6),)
    assert results.template.overwrite and gemm.overwrite


@pytest.mark.parametrize("reader", [padded(1, 0), padded(0, 2, acc_factor=0)])
def test_other_padding_is_loaded_with_the_tensor(reader: list[SegmentInstruction]) -> None:
    """In front of it, or where one sum takes both."""
    layers = [one_tile(), reader]
    assert keep_results(layers, SMALL, {}) == (layers, frozenset())


def test_attention_over_tokens_that_fill_no_block(rng: np.random.Generator) -> None:
    """Its keys are padded, and so are the tokens that values are computed from."""
    model = FloatTransformer(rng).vision()
    samples = {"x": rng.normal(size=(8, 5, 16)).astype(np.float32)}
    quantized = quantize_model(model.SerializeToString(), samples)
    artifact = daedal.compile(quantized.SerializeToString(), DIRECT, cache=False)
    (launch,) = (part for part in artifact.parts if isinstance(part, Launch))
    assert modes(launch) == {GemmMode.DENSE, GemmMode.DENSE_OUT}
    pads = [i for i in launch.program.instructions if i.opcode is Opcode.LOAD and i.pad_right]
    assert any(item.memory == LoadMemory.INP and not item.cols for item in pads)
    found = check_layers(artifact, quantized.SerializeToString(), {"x": samples["x"][:1]})
    assert found.passed, found.first_difference


@pytest.mark.heavy(3)
def test_rows_that_are_loaded_again_and_read_on_chip_are_not_taken_over(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream stays in the accumulators for one reader, while another one loads it, as if copies
    were not possible: the buffer of that one, which it changes, is not where the stream stays."""
    monkeypatch.setattr(resident_rows, "_copies", lambda *_: None)
    model = FloatTransformer(rng).vision()
    samples = {"x": rng.normal(size=(8, 5, 16)).astype(np.float32)}
    quantized = quantize_model(model.SerializeToString(), samples)
    artifact = daedal.compile(quantized.SerializeToString(), DIRECT, cache=False)
    found = check_layers(artifact, quantized.SerializeToString(), {"x": samples["x"][:1]})
    assert found.passed, found.first_difference


def test_not_where_results_have_the_rows_of_an_operand() -> None:
    """One field of the operation counts the rows of both."""
    tile, operand = Instance("p", Memory.OUT, 4), Instance("q", Memory.ACC, 4)
    operation = written(tile, (1, 4), (0, 1))
    access = RowAccess(operand, "dst_base", ((0, 4),), reads=True)
    operation = operation._replace(rows=(access, *operation.rows))
    layers = [[operation, stored(tile, 0, 1, 4, 0)], multiplied(4)]
    assert keep_results(layers, SMALL, {}) == (layers, frozenset())


def test_not_where_only_a_part_is_stored_before() -> None:
    tile = Instance("p", Memory.OUT, 4)
    layers = [[written(tile, (1, 4), (0, 1)), stored(tile, 0, 1, 4, 0)], multiplied(5)]
    assert keep_results(layers, SMALL, {}) == (layers, frozenset())


def test_tiles_conflict_in_rows_that_are_kept() -> None:
    kept, other = (Instance(name, Memory.OUT, 4) for name in ("kept", "other"))

    def access(instance: Instance, begin: int, end: int, **how: bool) -> list[SegmentInstruction]:
        template = Instruction.of(Opcode.ALU)
        return [SegmentInstruction(template, (RowAccess(instance, "x", ((begin, end),), **how),))]

    tiles = [
        access(kept, 0, 2, writes=True),
        access(kept, 2, 4, writes=True),
        access(kept, 0, 1, reads=True),
        access(other, 0, 4, writes=True),
    ]
    touched = Touched(tiles, Words(SMALL, {}), {kept})
    assert touched.by(access(kept, 0, 2, reads=True)) == (0, 0)
    assert touched.by(access(kept, 1, 3, reads=True)) == (1, 1)
    assert touched.by(access(kept, 0, 1, writes=True)) == (NO_INSTRUCTION, 2)
    assert touched.by(access(other, 0, 4, reads=True)) == (NO_INSTRUCTION, NO_INSTRUCTION)
