"""How long layers take together, of which units and estimates are given."""

from dataclasses import replace

import pytest

from daedal.codesign.cycles.busy import BusyUnits
from daedal.codesign.cycles.kept import Operand, OrderedLayer, SmallTensor
from daedal.codesign.cycles.timeline import Estimate, launch_cycles
from daedal.compiler.cost.machine import machine_cost
from daedal.isa.memory_model import PRESETS
from daedal.isa.scratchpad import Memory
from daedal.isa.variant import load_variant

VTA = load_variant("vta")
VTA = VTA.replace(None, counters=False)
"""Without marks, which take the bus."""
DDR = PRESETS["ddr"]
MACHINE = machine_cost(VTA, DDR)
FETCH = MACHINE.launch - sum(MACHINE.latency.values())


def layer(number: int, constants: int = 0, result: SmallTensor | None = None) -> OrderedLayer:
    """One of a chain, that loads and stores 800 bytes."""
    small = SmallTensor(Memory.OUT, 800)
    operand = Operand(number - 1 if number else None, 800, small if number else None, True)
    return OrderedLayer(str(number), (operand,), result, (1, 16, 50, 1), 800, constants, False)


def estimate(
    products: float, vectors: float, words: float, tiles: float = 1.0, bands: float = 1.0
) -> Estimate:
    """That of a layer whose units work on one tile after the other, without latencies."""
    busy = BusyUnits(products, vectors, words, tiles, bands)
    loaded = (words - 100) / tiles
    waits = (products + vectors) / tiles + loaded + 100 / tiles
    return Estimate(
        max(products, vectors, words) + waits - max(products, vectors, words) / tiles, 0, busy
    )


def test_a_layer_alone_takes_its_estimate_and_the_latencies() -> None:
    alone = replace(layer(0), operands=(Operand(None, 800, None, True),))
    for cycles in (1000.0, 2000.0):
        found = launch_cycles(
            [alone], {"0": Estimate(cycles, 0, BusyUnits(500.0, 100.0, 200.0))}, VTA, DDR
        )
        assert found == pytest.approx(cycles + MACHINE.launch)
    with_latency = Estimate(1000.0, 300.0, BusyUnits(500.0, 100.0, 200.0))
    assert launch_cycles([alone], {"0": with_latency}, VTA, DDR) == pytest.approx(
        700 + MACHINE.launch
    )


def test_what_does_not_fit_is_infinite() -> None:
    found = launch_cycles([layer(0)], {"0": Estimate(float("inf"))}, VTA, DDR)
    assert found == float("inf")


def test_constants_are_loaded_while_the_layer_before_is_computed() -> None:
    """800 of the second layer's 1,000 words are constants; the first one computes for longer."""
    work = {"0": estimate(3000, 100, 200), "1": estimate(500, 100, 1000)}
    first, second = (
        layer(0),
        replace(layer(1, constants=6400), operands=(Operand(0, 800, None, True),)),
    )
    found = launch_cycles([first, second], work, VTA, DDR)
    apart = sum(item.cycles for item in work.values()) + FETCH + 2 * sum(MACHINE.latency.values())
    assert found == pytest.approx(apart - 800)


def test_layers_on_chip_overlap_tile_by_tile() -> None:
    """The second layer multiplies the tiles that the ALU has finished; nothing moves between."""
    result = SmallTensor(Memory.OUT, 800)
    work = {"0": estimate(0, 2000, 200, 10, 10), "1": estimate(2000, 100, 200, 10, 10)}
    chip = launch_cycles([layer(0, result=result), layer(1)], work, VTA, DDR)
    without = VTA.replace(None, gemm_reads_out=False)
    memory = launch_cycles([layer(0, result=result), layer(1)], work, without, DDR)
    assert chip < memory
    assert 2000 < chip < 2000 + 2000 / 10 * 3 + MACHINE.launch
    whole = {"0": work["0"], "1": estimate(2000, 100, 200, 10, 1)}
    later = launch_cycles([layer(0, result=result), layer(1)], whole, VTA, DDR)
    assert later > 4000  # all tiles need the whole tensor


def test_marks_take_the_bus() -> None:
    work = {"0": estimate(10, 10, 2000), "1": estimate(10, 10, 2000)}
    layers = [layer(0), replace(layer(1, constants=8000), operands=(Operand(0, 800, None, True),))]
    marked = VTA.replace(None, counters=True)
    assert launch_cycles(layers, work, marked, DDR) > launch_cycles(layers, work, VTA, DDR)
