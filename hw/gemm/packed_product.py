"""Two products per hardware multiplier: neighbouring rows of weights share an activation.

Input: one row of activations and pairs of rows of weights, from registers. Output: their dot
products.
"""

from amaranth.hdl import Cat, Module, Mux, Value

from daedal.hw.family import Platform
from daedal.hw.parts.arithmetic import adder_tree
from daedal.hw.pipeline import delay, register
from daedal.hw.primitives.multiplier import Operand, registered_product
from daedal.isa.lane import FACTOR_BITS
from daedal.isa.latencies import adder_tree_cycles

__all__ = ["packed_products", "packed_products_latency"]

_DIGIT_BITS = 2
"""Bits of a weight that select a multiple (0 to 3) of an activation. Only three times it needs an
adder, which all pairs share."""


def packed_products_latency(num_terms: int) -> int:
    """Cycles of `packed_products`: product, overlap, tree, one sum."""
    return 3 + adder_tree_cycles(num_terms)


def packed_products(
    m: Module,
    platform: Platform,
    inp: list[Operand],
    rows: list[list[Operand]],
    own: list[dict[int, Operand]],
) -> list[Value]:
    """Return ``sum_i inp[i] * row[i]`` of every row; the number of `rows` is even.

    `own` has for each pair of rows the activations that replace some of `inp`.

    For a pair of weights (upper w, lower v) and their activation x, one multiplier computes::

        P = (w * 2**k + u) * x          u = v + 2**(bits - 1), unsigned: the top bit inverted

    Its low k bits are the low bits of u * x. Above them w * x and the rest of u * x, called h,
    overlap: h = floor(u * x / 2**k) = (P >> k) - w * x, of which as many bits are needed as u * x
    has above k. So a few low bits of w * x, made in logic, give h, and::

        w * x = (P >> k) - h            v * x = h * 2**k + (P mod 2**k) - 2**(bits - 1) * x

    All of this is linear: P >> k, h and P mod 2**k are summed over i first, and combined once per
    pair. The sum of x is computed once, of `inp`; a pair with activations of its own adds the
    differences. For int8, k is 10 and h has 6 bits.

    Source: the packing of two int8 products into one multiplier is that of Xilinx WP486; there the
    multiplier is wide enough to keep the products apart.
    """
    input_bits, weight_bits = len(inp[0].held), len(rows[0][0].held)
    # At least one bit of overlap; with exactly one, h is the sign of u * x.
    k = min(FACTOR_BITS - weight_bits, input_bits + weight_bits - 1)
    assert k >= weight_bits and len(rows) % 2 == 0
    overlap = input_bits + weight_bits - k
    bias_bits = weight_bits - 1
    common = adder_tree(m, [x.held for x in inp], name="inp_sum")
    inp_sum = register(m, common, name="inp_sum")
    triples = [_triple(m, x, overlap, name=f"inp_triple{i}") for i, x in enumerate(inp)]
    totals: list[Value] = []
    for pair in range(len(rows) // 2):
        name = f"pair{pair}"
        uppers, lowers, rests = [], [], []
        pair_sum = _own_sum(m, inp, own[pair], common, name=name) if own[pair] else inp_sum
        own_triples = {
            i: _triple(m, x, overlap, name=f"{name}_triple{i}") for i, x in own[pair].items()
        }
        triple = [own_triples.get(i, shared) for i, shared in enumerate(triples)]
        for i, x in enumerate(own[pair].get(i, x) for i, x in enumerate(inp)):
            v, w = rows[2 * pair][i], rows[2 * pair + 1][i]
            both = Operand(_pack(v.value, w.value, k), _pack(v.held, w.held, k))
            product = registered_product(m, platform, both, x, name=f"{name}_product{i}")
            digits = w.held[:overlap], x.held[:overlap], triple[i]
            low = _low_product(m, *digits, name=f"{name}_low{i}")
            rest = (product[k : k + overlap] - low)[:overlap].as_signed()
            rests.append(register(m, rest, name=f"{name}_rest{i}"))
            uppers.append(product[k:].as_signed())
            lowers.append(product[:k])
        upper = delay(m, adder_tree(m, uppers, name=f"{name}_upper"), 1, name=f"{name}_upper")
        lower = adder_tree(m, lowers, name=f"{name}_lower")
        unbiased = register(m, lower - (pair_sum << bias_bits), name=f"{name}_unbiased")
        rest = adder_tree(m, rests, name=f"{name}_rest")
        sum_bits = input_bits + weight_bits + adder_tree_cycles(len(inp))
        for number, total in enumerate((unbiased + (rest << k), upper - rest)):
            exact = total[:sum_bits].as_signed()
            totals.append(register(m, exact, name=f"{name}_total{number}"))
    return totals


def _pack(v: Value, w: Value, k: int) -> Value:
    """Pack a lower and an upper weight into the multiplier's operand, `k` bits apart."""
    return Cat(v[:-1], ~v[-1], Value.cast(0).replicate(k - len(v)), w).as_signed()


def _triple(m: Module, x: Operand, bits: int, *, name: str) -> Value:
    """The low bits of three times an operand, registered like the operand itself."""
    low = x.value[:bits]
    return register(m, (low + (low << 1))[:bits], name=name)


def _own_sum(
    m: Module, inp: list[Operand], own: dict[int, Operand], common: Value, *, name: str
) -> Value:
    """The registered sum of `inp` with some elements replaced; `common` is the sum of `inp`."""
    excess = [
        register(m, x.held - inp[i].held, name=f"{name}_excess{number}")
        for number, (i, x) in enumerate(own.items())
    ]
    spare = adder_tree_cycles(len(inp)) - adder_tree_cycles(len(own)) - 1
    assert spare >= 0, "the sum of what is replaced must not come after that of all"
    total = delay(m, adder_tree(m, excess, name=f"{name}_excess"), spare, name=f"{name}_excess")
    return register(m, common + total, name=f"{name}_inp_sum")


def _low_product(m: Module, a: Value, b: Value, triple: Value, *, name: str) -> Value:
    """The low half of ``a * b`` of two operands of equal width, in logic, one register deep.

    Two bits of `a` at a time select 0, b, 2 b or 3 b, which halves the number of terms.
    """
    bits = len(a)
    terms = []
    for k in range(0, bits, _DIGIT_BITS):
        chosen = Mux(a[k], b, 0)
        if k + 1 < bits:
            chosen = Mux(a[k + 1], Mux(a[k], triple, b << 1), chosen)
        terms.append(chosen[: bits - k])
    # Two halves, each registered, so that the additions take two cycles.
    half = (len(terms) + 1) // 2
    first = register(m, _sum(terms[:half])[:bits], name=f"{name}_first")
    if len(terms) == half:
        return first
    place = half * _DIGIT_BITS
    second = register(m, _sum(terms[half:])[: bits - place], name=f"{name}_second")
    # The bits below the second half bypass its adder.
    return Cat(first[:place], (first[place:] + second)[: bits - place])


def _sum(terms: list[Value]) -> Value:
    """Sum of the terms of an operand's digits, each shifted by `_DIGIT_BITS` from the last."""
    total = terms[0]
    for number, term in enumerate(terms[1:], 1):
        total = total + (term << (number * _DIGIT_BITS))
    return total
