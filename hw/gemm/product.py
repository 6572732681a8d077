"""Multipliers and adder trees: every row of weights times one row of activations per cycle.

Input: one row of activations, block_out rows of weights. Output: block_out exact sums. The
variant's `array.multiplier_style` selects how the multipliers are built; the sums do not depend on
it.
"""

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.family import Platform
from daedal.hw.gemm.lut_multiplier import multiply_in_luts, multiply_in_luts_latency
from daedal.hw.gemm.packed_product import packed_products, packed_products_latency
from daedal.hw.parts.arithmetic import adder_tree
from daedal.hw.pipeline import register
from daedal.hw.primitives.multiplier import Operand, registered_product
from daedal.isa.latencies import adder_tree_cycles
from daedal.isa.variant import ArrayConfig, MultiplierStyle

__all__ = ["DotProducts", "tap_element"]


def tap_element(array: ArrayConfig, output: int, tap: int) -> int:
    """The multiplier of an output that takes a depthwise tap; tap 0 takes the output's own element.

    The taps of outputs that share activations fall on different elements.
    """
    return (output + tap * array.outputs_per_activation) % array.block_in


class DotProducts(wiring.Component):
    """``total[o] = sum_i inp[i] * wgt[o][i]`` over block_in elements, all rows in every cycle.

    Styles: DSP, a hardware multiplier per product; PACKED, one per two products of neighbouring
    rows (`packed_product`); LUT, adders in logic (`lut_multiplier`). All have registers at the
    multipliers' inputs and outputs and a balanced tree with one addition per stage; their latencies
    differ.

    With three depthwise taps there are two more rows of activations. In a cycle with `slide`, for t
    = 1 and 2, row o takes element o of activation row t at ``tap_element(o, t)`` instead of that
    element of `inp`.

    Members
    -------
    inp : block_in signed elements, the first in the lowest bits; any further rows follow above.
    wgt : block_out rows of as many signed elements.
    slide : (three depthwise taps only) take the elements of the neighbouring rows of activations.
    total : the exact sums.
    """

    def __init__(self, *, array: ArrayConfig) -> None:
        self._array = array
        sum_bits = array.input_bits + array.weight_bits + adder_tree_cycles(array.block_in)
        super().__init__(
            {
                "inp": In(max(1, array.depthwise_taps) * array.block_in * array.input_bits),
                "wgt": In(array.block_out * array.block_in * array.weight_bits),
                "total": Out(data.ArrayLayout(signed(sum_bits), array.block_out)),
                **({"slide": In(1)} if array.depthwise_taps > 1 else {}),
            }
        )

    @staticmethod
    def latency(array: ArrayConfig) -> int:
        """Cycles from the operands to their sums."""
        tree = adder_tree_cycles(array.block_in)
        match array.style:
            case MultiplierStyle.DSP:
                return 2 + tree
            case MultiplierStyle.PACKED:
                return 1 + packed_products_latency(array.block_in)
            case MultiplierStyle.LUT:
                return 1 + multiply_in_luts_latency(array.weight_bits) + tree

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        array = self._array
        row_bits = array.block_in * array.input_bits
        inp = _operands(m, self.inp[:row_bits], array.input_bits, name="inp_register")
        wgt = _operands(m, self.wgt, array.weight_bits, name="wgt_register")
        rows = [wgt[o * array.block_in : (o + 1) * array.block_in] for o in range(array.block_out)]
        slid = self._slid(m)
        if array.style is MultiplierStyle.PACKED:
            totals = packed_products(m, platform, inp, rows, slid)
        else:
            totals = []
            for o, row in enumerate(rows):
                own = [slid[o].get(i, x) for i, x in enumerate(inp)]
                totals.append(_row(m, platform, array, own, row, name=f"row{o}"))
        m.d.comb += [self.total[o].eq(total) for o, total in enumerate(totals)]
        return m

    def _slid(self, m: Module) -> list[dict[int, Operand]]:
        """Operands that replace those of `inp`, by element; one dict per shared activation row."""
        array = self._array
        group = array.outputs_per_activation
        result: list[dict[int, Operand]] = []
        elements = _elements(self.inp, array.input_bits)
        for first in range(0, array.block_out, group):
            slid = {}
            for o in range(first, first + group):
                for tap in range(1, array.depthwise_taps):
                    at = tap_element(array, o, tap)
                    neighbour = elements[tap * array.block_in + o]
                    chosen = Mux(self.slide, neighbour, elements[at])
                    held = register(m, chosen, name=f"slid{o}_{tap}")
                    slid[at] = Operand(chosen, held)
            result.append(slid)
        return result


def _elements(word: Value, bits: int) -> list[Value]:
    return [word[k : k + bits].as_signed() for k in range(0, len(word), bits)]


def _operands(m: Module, word: Value, bits: int, *, name: str) -> list[Operand]:
    """The signed elements of a word, each before and after its register."""
    elements = [_elements(row, bits) for row in (word, register(m, word, name=name))]
    return [Operand(*both) for both in zip(*elements, strict=True)]


def _row(
    m: Module,
    platform: Platform,
    array: ArrayConfig,
    inp: list[Operand],
    row: list[Operand],
    *,
    name: str,
) -> Value:
    """One row's sum, a multiplier for each of its products."""
    products: list[Value] = []
    for i, (x, w) in enumerate(zip(inp, row, strict=True)):
        if array.style is MultiplierStyle.LUT:
            products.append(multiply_in_luts(m, x.held, w.held, name=f"{name}_product{i}"))
        else:
            # Explicit signals give synthesis a multiplication of exactly these widths.
            a = Signal(x.held.shape(), name=f"{name}_a{i}")
            b = Signal(w.held.shape(), name=f"{name}_b{i}")
            m.d.comb += [a.eq(x.held), b.eq(w.held)]
            own = Operand(x.value, a), Operand(w.value, b)
            products.append(registered_product(m, platform, *own, name=f"{name}_product{i}"))
    return adder_tree(m, products, name=f"{name}_sum")
