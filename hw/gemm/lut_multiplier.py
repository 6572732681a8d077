"""A multiplier in logic: shifted multiples of one operand, added in a tree of registered sums.

Input: two signed operands from registers. Output: their exact product.
"""

from amaranth.hdl import Cat, Module, Mux, Value, signed

from daedal.hw.pipeline import register
from daedal.isa.latencies import adder_tree_cycles

__all__ = ["multiply_in_luts", "multiply_in_luts_latency"]


def multiply_in_luts_latency(factor_bits: int) -> int:
    """Cycles of `multiply_in_luts` for a second operand of this many bits."""
    return adder_tree_cycles(factor_bits)


def multiply_in_luts(m: Module, a: Value, b: Value, *, name: str) -> Value:
    """Exact product of two signed operands without a multiplication operator.

    Synthesis tools map multiplications to hardware multipliers, and at best have one switch for the
    whole design; additions of masked operands stay in logic. Each bit of `b` selects a multiple of
    `a`, the top bit with a negative weight (two's complement), and each level of the tree halves
    the number of terms. The number of bits of `b` must be a power of two.
    """
    count = len(b)
    terms = [Mux(b[k], a, 0).as_signed() for k in range(count)]
    distance = 1
    level = 0
    while len(terms) > 1:
        sums: list[Value] = []
        for k in range(0, len(terms), 2):
            shifted = Cat(Value.cast(0).replicate(distance), terms[k + 1]).as_signed()
            negative = level == 0 and k + 2 == count
            total = terms[k] - shifted if negative else terms[k] + shifted
            # A partial product of d bits of `b` is d bits wider than `a`.
            width = len(a) + 2 * distance
            sums.append(register(m, total[:width].as_signed(), name=f"{name}_{level}_{k // 2}"))
        terms = sums
        distance *= 2
        level += 1
    product = terms[0]
    assert product.shape() == signed(len(a) + len(b))
    return product
