"""The latencies that simulators count with are those that the gateware has."""

from dataclasses import replace

import pytest

from bench.correctness.random_runs import every_variant
from daedal.hw.alu import alu
from daedal.hw.alu.alu_lanes import AluLanes
from daedal.hw.alu.lane_reductions import LaneReductions
from daedal.hw.alu.requantize import Requantizer
from daedal.hw.gemm.product import DotProducts
from daedal.hw.parts import block_fifo
from daedal.isa import latencies
from daedal.isa.variant import MultiplierStyle, load_variant


def test_the_bus_words_of_a_read_pass_one_register_and_the_fifo() -> None:
    assert latencies.READ_WORD_CYCLES == 1 + block_fifo._SKID


@pytest.mark.parametrize("style", MultiplierStyle)
@pytest.mark.parametrize(("block_in", "weight_bits"), [(8, 8), (16, 4), (32, 8)])
def test_products_of_every_style(style: MultiplierStyle, block_in: int, weight_bits: int) -> None:
    """Without the part of a lead that hides short ones."""
    array = replace(
        load_variant("vta").array,
        multiplier_style=style.value,
        block_in=block_in,
        weight_bits=weight_bits,
    )
    assert latencies._dot_cycles(array) == DotProducts.latency(array)


def test_tables_lengthen_the_alu_of_variants_that_have_them() -> None:
    vta = load_variant("vta")
    before, after = (latencies.alu_latency_cycles(vta.replace(tables=n)) for n in (0, 4))
    assert (before, after) == (14, 17)


@pytest.mark.parametrize(("block", "latency"), [(8, 14), (16, 15), (64, 19)])
def test_reductions_lengthen_the_alu_where_their_tree_is_deep(block: int, latency: int) -> None:
    variant = load_variant("vta").replace(
        block_in=block, block_out=block, alu_lanes=8, lane_reductions=True, out_bytes=1 << 16
    )
    assert latencies.alu_latency_cycles(variant) == latency
    slower = max(alu.ordinary_latency(variant), alu.requantize_latency(variant))
    assert slower == latency - latencies.ALU_OPERAND_CYCLES


@pytest.mark.parametrize("name", sorted(every_variant()))
def test_numbers_of_a_variant(name: str) -> None:
    variant = every_variant()[name]
    latency = latencies.GEMM_OPERAND_CYCLES + DotProducts.latency(variant.array)
    lead = max(latencies.GEMM_AHEAD_CYCLES, latency - latencies.ACC_READ_TO_SUM_CYCLES)
    assert latencies.gemm_lead_cycles(variant) == lead
    slower = max(alu.ordinary_latency(variant), alu.requantize_latency(variant))
    assert latencies.alu_latency_cycles(variant) == latencies.ALU_OPERAND_CYCLES + slower
    reductions = LaneReductions.latency(variant) if variant.units.lane_reductions else 0
    assert alu.ordinary_latency(variant) == max(AluLanes.latency(), reductions)
    lookup = latencies.LOOKUP_CYCLES if variant.memory.tables else 0
    assert alu.requantize_latency(variant) == Requantizer.latency(variant) + lookup
