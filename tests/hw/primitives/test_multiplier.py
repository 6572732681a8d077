"""Multipliers by name against the portable products: signs, widths, registers inside or outside."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.alu.alu_lanes import AluLanes
from daedal.hw.alu.requantize import Requantizer
from daedal.hw.emit import TOP_MODULE, emit_component
from daedal.hw.gemm.product import DotProducts
from daedal.hw.pipeline import register
from daedal.hw.primitives.multiplier import Operand, registered_product
from daedal.hw.synth.families import Family
from daedal.isa.variant import ArrayConfig, load_variant
from tests.hw.primitives.ecp5_models import disagreements, inputs_of

TINY = load_variant("tiny")


class Products(wiring.Component):
    """Products of every kind of operand side by side."""

    def __init__(self, a: Shape, b: Shape) -> None:
        self._shapes = a, b
        width = a.width + b.width
        super().__init__(
            {"a": In(a), "b": In(b), **{name: Out(width) for name in ("both", "one", "none")}}
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        a, b = (Signal(shape, name=name) for shape, name in zip(self._shapes, "ab", strict=True))
        m.d.comb += [a.eq(self.a), b.eq(self.b)]
        inner = [Operand(x, register(m, x, name="held")) for x in (a, b)]
        outer = [register(m, x, name="outside") for x in (a, b)]

        def product(x: Operand | Value, y: Operand | Value, name: str) -> Value:
            return registered_product(m, platform, x, y, name=name)

        m.d.comb += [
            self.both.eq(product(*inner, "product")),
            self.one.eq(product(inner[0], outer[1], "half")),
            self.none.eq(product(*outer, "plain")),
        ]
        return m


def extremes(rng: np.random.Generator, widths: dict[str, int], cycles: int) -> list[dict[str, int]]:
    """Random words, and in a quarter of them each only zeros, only ones, or the top bit alone."""

    def word(width: int) -> int:
        if rng.random() < 0.25:
            return int([0, (1 << width) - 1, 1 << (width - 1)][rng.integers(3)])
        return int.from_bytes(rng.bytes(width // 8 + 1), "little") & ((1 << width) - 1)

    return [{name: word(width) for name, width in widths.items()} for _ in range(cycles)]


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("a", "b"),
    [
        (Shape(18, True), Shape(18, True)),
        (Shape(17), Shape(18, True)),
        (Shape(18), Shape(18)),
        (Shape(5, True), Shape(3)),
        (Shape(1), Shape(1, True)),
    ],
)
def test_products_by_name(a: Shape, b: Shape, rng: np.random.Generator, tmp_path: Path) -> None:
    portable, hard = (Products(a, b) for _ in range(2))
    stimuli = extremes(rng, inputs_of(portable), 400)
    differ, changed = disagreements(portable, hard, stimuli, tmp_path)
    assert (differ, changed > 50) == (0, True)


def test_products_too_wide_for_the_cell_are_left_to_synthesis() -> None:
    text = emit_component(Products(Shape(19), Shape(3)), TOP_MODULE, "products", Family.ECP5)
    assert "MULT18X18D" not in text


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("style", "block", "bits", "taps"),
    [("dsp", 5, 8, 0), ("dsp", 4, 16, 3), ("packed", 6, 8, 3), ("packed", 8, 4, 0)],
)
def test_dot_products_by_name(
    style: str, block: int, bits: int, taps: int, rng: np.random.Generator, tmp_path: Path
) -> None:
    array = ArrayConfig(
        block_in=block,
        block_out=4,
        input_bits=bits,
        output_bits=bits,
        weight_bits=bits,
        accumulator_bits=48,
        depthwise_taps=taps,
        multiplier_style=style,
    )
    portable, hard = (DotProducts(array=array) for _ in range(2))
    stimuli = extremes(rng, inputs_of(portable), 300)
    differ, changed = disagreements(portable, hard, stimuli, tmp_path)
    assert (differ, changed > 250) == (0, True)


@pytest.mark.rtl
@pytest.mark.parametrize("unit", [Requantizer, AluLanes])
@pytest.mark.parametrize("accumulator_bits", [32, 48])
def test_lanes_by_name(
    unit: type, accumulator_bits: int, rng: np.random.Generator, tmp_path: Path
) -> None:
    variant = TINY.replace(accumulator_bits=accumulator_bits, multiplier_bits=24)
    portable, hard = (unit(variant=variant) for _ in range(2))
    stimuli = extremes(rng, inputs_of(portable), 300)
    differ, changed = disagreements(portable, hard, stimuli, tmp_path)
    assert (differ, changed > 50) == (0, True)
