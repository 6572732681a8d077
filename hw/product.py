"""Multipliers and adder trees: one row of weights times one row of activations per cycle."""

from typing import Any

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.arithmetic import adder_tree, adder_tree_latency
from daedal.hw.pipeline import register
from daedal.isa.variant import Variant

__all__ = ["DotProduct"]


class DotProduct(wiring.Component):
    """``sum_i inp[i] * wgt[i]`` over block_in elements, one result per cycle.

    Registers at the multipliers' inputs and outputs, then a balanced tree with one addition per
    stage: latency 2 + log2(block_in) cycles.

    Members
    -------
    inp, wgt : block_in signed elements each, the first in the lowest bits.
    total : the exact sum.
    """

    def __init__(self, *, variant: Variant) -> None:
        array = variant.array
        self._array = array
        sum_bits = array.input_bits + array.weight_bits + adder_tree_latency(array.block_in)
        super().__init__(
            {
                "inp": In(array.block_in * array.input_bits),
                "wgt": In(array.block_in * array.weight_bits),
                "total": Out(signed(sum_bits)),
            }
        )

    @staticmethod
    def latency(variant: Variant) -> int:
        """Cycles from the operands to their sum."""
        return 2 + adder_tree_latency(variant.array.block_in)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        array = self._array
        inp = register(m, self.inp, name="inp_register")
        wgt = register(m, self.wgt, name="wgt_register")
        products = []
        for i in range(array.block_in):
            a = Signal(signed(array.input_bits), name=f"a{i}")
            b = Signal(signed(array.weight_bits), name=f"b{i}")
            m.d.comb += [
                a.eq(inp.word_select(i, array.input_bits)),
                b.eq(wgt.word_select(i, array.weight_bits)),
            ]
            products.append(register(m, a * b, name=f"product{i}"))
        m.d.comb += self.total.eq(adder_tree(m, products, name="sum"))
        return m
