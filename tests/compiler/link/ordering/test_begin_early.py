"""Layers that begin before those in front have ended: order, conditions, results, cycles."""

from unittest import mock

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact, Launch
from daedal.checking.layer_check import check_layers
from daedal.compiler.codegen.segment import (
    Segment,
    relabeled,
)
from daedal.compiler.link import linker
from daedal.compiler.link.ordering import interleave
from daedal.compiler.link.ordering.begin_early import LATEST
from daedal.compiler.link.ordering.interleave import SHORTEST_TILE, Stretch, stretches
from daedal.isa.table import Opcode, Unit
from daedal.isa.variant import load_variant
from daedal.isa.verifier import verify
from daedal.runtime.layers import layer_tags
from tests.support.interleaving import check_interleavings
from tests.support.rtl_cycles import check_rtl
from tests.support.tile_segments import layer_of_tiles, loading

TINY = load_variant("tiny")
ROWS = load_variant("vta").replace("rows", tables=4, lane_reductions=True, wide_requantize=True)


def layer(
    name: str,
    source: str,
    result: str,
    loads: list[int],
    *,
    products: bool,
    steps: int = SHORTEST_TILE,
    rows: int = 4,
) -> Segment:
    """A tile for each word that is loaded; the results are stored one after the other."""
    tiles = loading(*loads)
    return layer_of_tiles(name, source, result, tiles, products=products, steps=steps, rows=rows)


def front(count: int = 6) -> Segment:
    return layer("front", "x", "t", list(range(count)), products=False)


def order(parts: list[Stretch]) -> str:
    """The layer of every tile, in the order of their STOREs."""
    return " ".join(
        "".join(str(number) for number, item in part.items if item.unit is Unit.STORE)
        for part in parts
    )


def test_tiles_in_front_run_beside_products() -> None:
    """The first three tiles need one in front, the others all of them; the last one in front comes
    a tile earlier than needed."""
    behind = layer("behind", "t", "y", [0, 0, 0, 5, 5], products=True)
    (part,) = stretches([front(), behind], (), TINY)
    assert order([part]) == "00010001111"
    early = {access.instance for which, item in part.items[:3] for access in item.rows}
    halves = {
        instance: which
        for which, item in part.items
        for access in item.rows
        if (instance := access.instance) not in early
    }
    assert {x: half for x, half in halves.items() if x in part.halves} == part.halves
    assert set(part.halves.values()) == {0, 1}
    # Those of the last tiles take turns again.
    assert 0 < len(part.halves) < len(halves)


def test_several_layers_begin_early() -> None:
    """Their tiles that can come first do; a layer that reads one of them stays behind."""
    second = layer("second", "t", "y", [1, 1, 5, 5], products=True)
    third = layer("third", "t", "z", [1, 1, 5, 5], products=True)
    last = layer("last", "z", "end", [0, 1, 2, 3], products=True)
    parts = stretches([front(), second, third, last], (), TINY)
    assert [part.layers for part in parts] == [(0, 1, 2), (3,)]
    stored = order(parts[:1]).replace("0", "")
    assert stored == "11221122"


def test_layers_with_the_same_code() -> None:
    """They share instances; interleaved, each has its own."""
    second = layer("second", "t", "y", [1, 1, 5, 5], products=True)
    third = relabeled(second, "third", {"t": "t", "y": "z"})
    (part,) = stretches([front(), second, third], (), TINY)
    instances = [
        {access.instance for which, item in part.items if which == number for access in item.rows}
        for number in part.layers
    ]
    assert not instances[1] & instances[2]
    assert len(instances[1]) == len(instances[2])


def test_a_layer_that_needs_nearly_all_in_front_stays_behind() -> None:
    for need, count in ((int(6 * LATEST) - 1, 1), (int(6 * LATEST), 2)):
        behind = layer("behind", "t", "y", [need, 5], products=True)
        assert len(stretches([front(), behind], (), TINY)) == count


@pytest.mark.parametrize("steps", [SHORTEST_TILE, SHORTEST_TILE - 1])
def test_tiles_with_few_products_hide_nothing(steps: int) -> None:
    behind = layer("behind", "t", "y", [0, 5], products=True, steps=steps)
    assert len(stretches([front(), behind], (), TINY)) == 1 + (steps < SHORTEST_TILE)


def test_a_layer_that_reads_something_else_stays_behind() -> None:
    behind = layer("behind", "other", "y", [0, 5], products=True)
    assert len(stretches([front(), behind], (), TINY)) == 2


def test_a_layer_with_products_in_front_hides_itself() -> None:
    before = layer("before", "x", "t", list(range(6)), products=True)
    behind = layer("behind", "t", "y", [0, 5], products=True)
    assert len(stretches([before, behind], (), TINY)) == 2


def test_layers_with_products_among_those_in_front_keep_the_accumulators() -> None:
    """A convolution and the pool that follows its tiles: none of them would gain from products
    behind, and each would have half of the accumulators."""
    first = layer("first", "x", "t", list(range(6)), products=True)
    pool = layer("pool", "t", "u", list(range(6)), products=False)
    behind = layer("behind", "u", "y", [0, 0, 0, 5, 5], products=True)
    parts = stretches([first, pool, behind], (), TINY)
    assert [part.layers for part in parts] == [(0, 1), (2,)]


def test_without_early_layers() -> None:
    behind = layer("behind", "t", "y", [0, 5], products=True)
    assert len(stretches([front(), behind], (), TINY, early=False)) == 2


def normed_products(tokens: int, depth: int, width: int, count: int) -> onnx.ModelProto:
    """A norm of a tensor of 16 bits, and `count` projections of its result."""
    rng = np.random.default_rng(tokens)
    m = QdqModel(21)
    x = m.requantized(m.input("x", (1, tokens, depth)), 0.0005, 0, "int16")
    gain = m.constant(rng.uniform(0.5, 2, depth).astype(np.float32))
    normed = m.op("LayerNormalization", x, gain, axis=-1, epsilon=1e-5)
    normed = m.requantized(normed, 0.03, 3)
    results = []
    for _ in range(count):
        w = m.weights(rng.integers(-60, 61, (depth, width)).astype(np.int8), 0.004)
        results.append(m.requantized(m.op("MatMul", normed, w), 0.05, 0))
    return m.model(*results)


def compiled(model: onnx.ModelProto, *, early: bool = True) -> tuple[Artifact, Launch]:
    begin = interleave.begin_early if early else lambda *_: None
    with mock.patch.object(interleave, "begin_early", begin):
        artifact = daedal.compile(model.SerializeToString(), ROWS, host=None, cache=False)
    (launch,) = (part for part in artifact.parts if isinstance(part, Launch))
    verify(launch.program)
    return artifact, launch


def feeds(tokens: int, depth: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).normal(0, 1, (1, tokens, depth)).astype(np.float32)}


def test_fewer_cycles_and_the_same_results() -> None:
    model = normed_products(128, 128, 512, 1)
    x = feeds(128, 128)
    cycles = []
    for early in (True, False):
        artifact, _ = compiled(model, early=early)
        found = check_layers(artifact, model.SerializeToString(), x)
        assert found.passed, found.first_difference
        cycles.append(daedal.simulate(artifact, x, device="timing").profiles[0].cycles)
    assert cycles[0] < 0.95 * cycles[1]


@pytest.mark.rtl
@pytest.mark.xdist_group("attention-rtl")
def test_the_rtl_gives_the_same_in_the_same_cycles() -> None:
    model = normed_products(128, 128, 256, 1)
    x = feeds(128, 128)
    artifact, launch = compiled(model)
    assert _layers_beside_the_first(launch) == {1}
    check_rtl(artifact, x)


def test_the_same_under_any_interleaving() -> None:
    """Two projections of one code, which share the tiles of the norm."""
    model = normed_products(128, 128, 256, 2)
    _, launch = compiled(model)
    assert _layers_beside_the_first(launch) == {1, 2}
    check_interleavings(launch.program, np.random.default_rng(3), 4)


def test_a_program_that_does_not_fit_is_linked_without_early_layers() -> None:
    model = normed_products(128, 128, 256, 1)
    real = linker.Placement.run
    tried = []

    def run(self: linker.Placement, parts: list[Stretch], segments: list[Segment]) -> object:
        tried.append(any(part.halves for part in parts))
        if tried[-1]:
            raise linker.Misfit("too small", parts[0])
        return real(self, parts, segments)

    with mock.patch.object(linker.Placement, "run", run):
        compiled(model)
    # Before, the same layers are tried with constants loaded again.
    assert tried.index(False) == len(tried) - 1 > 0


def _layers_beside_the_first(launch: Launch) -> set[int | None]:
    """Those with products before the last STORE of the first layer."""
    items, tags = launch.program.instructions, layer_tags(launch.program)
    stores = (n for n, item in enumerate(items) if item.opcode is Opcode.STORE and tags[n] == 0)
    return {tags[n] for n in range(max(stores)) if items[n].opcode is Opcode.GEMM}
