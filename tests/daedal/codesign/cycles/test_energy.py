"""Energy of an image: by hand from a program, monotone, and estimates near what is counted."""

import dataclasses
import math
import re
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal import api
from daedal.codesign.cycles.analytic import AnalyticCycles
from daedal.codesign.cycles.counting import Network, count_networks
from daedal.codesign.cycles.energy import CLOCK, EXTERNAL_BYTE, WORKING, switched_energy
from daedal.codesign.cycles.estimated_work import EstimatedWork
from daedal.codesign.cycles.work import Counts, Work
from daedal.codesign.hardware.area import area_model
from daedal.codesign.search.objectives import Limit, Objective, parse_limits, parse_objectives
from daedal.common.errors import ExploreError
from daedal.hw.synth.families import RESOURCES, Family
from daedal.isa.table import Opcode, instruction_bytes
from daedal.isa.transfer import transfer
from daedal.isa.variant import Variant, load_variant

MODEL = (Path(__file__).parents[4] / "examples" / "digits" / "digits_qdq.onnx").read_bytes()
NETWORKS = {"digits": Network(MODEL)}
HALF = load_variant("ecp5_half")
VARIANTS = {
    "ecp5_half": HALF,
    "tiny": load_variant("tiny"),
    "vta": load_variant("vta"),
    "small": HALF.replace(wgt_bytes=8_192, inp_bytes=4_096, acc_bytes=8_192, out_bytes=2_048),
    "square": HALF.replace(block_in=8, block_out=8),
    "taps": HALF.replace(block_out=16, depthwise_taps=3),
}
WORK = Work(products=600.0, vectors=300.0, read=200.0, written=100.0)
PARTS = {
    part: {"lut": 100.0 + number, "ff": 50.0, "dsp": 4.0, "block_ram": 2.0}
    for number, part in enumerate(("gemm", "alu", "load", "store", "accumulators", "out", "fetch"))
}


def of(variant: Variant) -> tuple[Work, float]:
    """Counted: the work of digits, and its cycles."""
    counts = count_networks(NETWORKS, variant, "ddr")
    assert counts is not None
    return counts.work["digits"], counts.cycles["digits"]


@pytest.mark.parametrize("name", ["ecp5_half", "tiny", "taps"])
def test_work_is_what_the_program_says(name: str) -> None:
    variant = VARIANTS[name]
    products = read = written = 0
    for launch in api.compile(MODEL, variant).launches:
        for item in launch.program.instructions:
            read += instruction_bytes(variant)
            if item.opcode is Opcode.GEMM:
                loops = [getattr(item, f"extent{level}") for level in range(3)]
                products += prod(loops) * (item.uop_end - item.uop_begin)
            elif item.opcode in (Opcode.LOAD, Opcode.STORE):
                moved = transfer(variant, item)
                size = len(moved.rows) * moved.row_bytes
                read += size * (item.opcode is Opcode.LOAD)
                written += size * (item.opcode is Opcode.STORE)
    work, cycles = of(variant)
    assert work.products == products
    assert work.written == written / variant.bus_bytes
    assert work.read == read / variant.bus_bytes
    assert 0 < work.vectors < cycles


def test_energy_by_hand() -> None:
    parts = {
        "gemm": {"lut": 10.0, "ff": 20.0, "dsp": 3.0, "block_ram": 1.0},
        "accumulators": {"lut": 5.0, "ff": 0.0, "dsp": 0.0, "block_ram": 2.0},
        "control": {"lut": 40.0, "ff": 60.0, "dsp": 0.0, "block_ram": 0.0},
    }
    found = switched_energy(WORK, 1_000.0, parts, HALF)
    unit = 36 * 0.125 * 1.09  # picojoules of the sources
    # GEMM works in 600 cycles; the accumulators' logic in 600 + 300, their RAMs in all.
    assert found.logic * 1e6 * unit == pytest.approx(0.029 * (600 * 30 + 900 * 5))
    assert found.multipliers * 1e6 == pytest.approx(600 * 3)
    assert found.block_ram * 1e6 * unit == pytest.approx(2 * 9 * 18 / 32 * (600 * 1 + 1_000 * 2))
    assert found.clock * 1e6 * unit == pytest.approx(0.0025 * 1_000 * 80)
    assert found.external * 1e6 * unit == pytest.approx(160 * 8 * 300)
    assert found.total == pytest.approx(sum(dataclasses.astuple(found)))


def total(work: Work, cycles: float = 1_000.0, parts: dict[str, dict[str, float]] = PARTS) -> float:
    return switched_energy(work, cycles, parts, HALF).total


@pytest.mark.parametrize("field", ["products", "vectors", "read", "written"])
def test_more_work_takes_more(field: str) -> None:
    more = dataclasses.replace(WORK, **{field: getattr(WORK, field) * 1.1})
    assert total(more) > total(WORK)


def test_more_cycles_take_more() -> None:
    assert total(WORK, 1_100.0) > total(WORK)


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("part", PARTS)
def test_a_larger_part_takes_more(part: str, resource: str) -> None:
    larger = {**PARTS, part: {**PARTS[part], resource: PARTS[part][resource] + 1}}
    # Instructions are rare: of FETCH only the clock counts.
    if part == "fetch" and resource != "ff":
        assert total(WORK, parts=larger) == total(WORK)
    else:
        assert total(WORK, parts=larger) > total(WORK)


def test_a_part_works_in_no_more_cycles_than_there_are() -> None:
    busy = Work(900.0, 900.0, 0.0, 0.0)
    one = {"accumulators": {"lut": 1.0, "ff": 0.0, "dsp": 0.0, "block_ram": 0.0}}
    assert total(busy, 1_000.0, one) == pytest.approx(1_000 * WORKING["lut"] / 1e6)


def test_weights_are_ordered() -> None:
    assert 0 < CLOCK < WORKING["lut"] == WORKING["ff"] < WORKING["dsp"] == 1.0
    assert WORKING["dsp"] < WORKING["block_ram"] < EXTERNAL_BYTE


@pytest.mark.parametrize("name", VARIANTS)
def test_estimates_are_near_what_is_counted(name: str) -> None:
    variant = VARIANTS[name]
    work, cycles = of(variant)
    estimated = EstimatedWork(MODEL)(variant)
    assert estimated is not None
    assert estimated.products == work.products
    assert estimated.vectors == pytest.approx(work.vectors, rel=0.05)
    assert estimated.written == pytest.approx(work.written, rel=0.05)
    # Without instructions, a fifth of so small a network.
    assert 0.7 * work.read < estimated.read <= 1.1 * work.read
    parts = area_model(Family.ECP5).by_part(variant)
    counted = switched_energy(work, cycles, parts, variant)
    guess = switched_energy(estimated, AnalyticCycles(MODEL)(variant), parts, variant)
    assert guess.total == pytest.approx(counted.total, rel=0.1)


@pytest.mark.parametrize("name", ["ecp5", "ecp5_half", "tiny", "vta"])
def test_estimates_of_other_operators(name: str) -> None:
    """A pool, a depthwise and a transposed convolution, and a sum. Estimates assume that results of
    every layer go through memory: what GEMM reads in OUT is not written."""
    net, rng = QdqModel(), np.random.default_rng(0)

    def weights(*shape: int, axis: int = 0) -> str:
        values = rng.integers(-127, 128, shape).astype(np.int8)
        return net.weights(values, np.full(shape[axis], 0.01), axis)

    def layer(op: str, *inputs: str, **attrs: object) -> str:
        return net.requantized(net.op(op, *inputs, **attrs), 0.1, 0)

    x = net.dequantize(net.input("x", (1, 16, 12, 12), "int8"), 0.1, 0)
    y = layer("Conv", x, weights(32, 16, 3, 3), pads=[1] * 4)
    y = layer("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = layer("Add", y, layer("Conv", y, weights(32, 1, 3, 3), pads=[1] * 4, group=32))
    y = net.op("ConvTranspose", y, weights(32, 24, 2, 2, axis=1), strides=[2, 2])
    model = net.model(net.quantize(y, 0.1, 0, output="y"), dtype="int8").SerializeToString()
    shipped = load_variant(name)
    variant = replace(shipped, units=replace(shipped.units, gemm_reads_out=False))
    counts = count_networks({"net": Network(model)}, variant, "ddr")
    found = EstimatedWork(model)(variant)
    assert counts is not None and found is not None
    work = counts.work["net"]
    assert (found.products, found.written) == (work.products, work.written)
    assert found.vectors == pytest.approx(work.vectors, rel=0.1)
    assert 0.8 * work.read < found.read <= work.read


def test_work_where_a_layer_does_not_fit() -> None:
    small = HALF.replace(acc_bytes=128)  # no pool's window fits the accumulators
    assert AnalyticCycles(MODEL)(small) == math.inf
    assert EstimatedWork(MODEL)(small) is None


def test_counts_are_written_and_read() -> None:
    for counts in (Counts({"a": 1.5}), Counts({"a": 1.5, "b": 2.0}, {"a": WORK, "b": WORK})):
        assert Counts.from_json(counts.to_json()) == counts
    assert "work" not in Counts({"a": 1.5}).to_json()


def test_energy_is_an_objective_and_a_limit() -> None:
    assert parse_objectives("latency, area,energy") == tuple(Objective)
    (limit,) = parse_limits(["energy=2500"])
    assert limit == Limit("energy", 2500.0) and limit.words == "energy at most 2500"
    with pytest.raises(ExploreError, match="objectives are latency, area, energy, separated"):
        parse_objectives("power")
    with pytest.raises(ExploreError, match="each objective is given once, not 'energy' twice"):
        parse_objectives("energy,area,energy")


def test_the_page_has_the_weights() -> None:
    page = (Path(__file__).parents[4] / "docs" / "codesign.md").read_text("utf-8")
    section = page.partition("## Energy")[2].partition("## Comparing")[0]
    found = [float(number) for number in re.findall(r"^\| [^|]* \| ([0-9.]+) \|", section, re.M)]
    weights = [WORKING["dsp"], WORKING["lut"], WORKING["block_ram"], CLOCK, EXTERNAL_BYTE]
    assert found == pytest.approx(weights, rel=0.005)
