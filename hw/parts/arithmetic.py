"""Arithmetic of the datapath: the functions of `isa.numerics` as expressions and pipelines.

Each function names its numpy twin; tests compare the two.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed

from daedal.hw.contracts import require_at_elaboration
from daedal.hw.family import Platform
from daedal.hw.pipeline import register
from daedal.hw.primitives.multiplier import Operand, registered_product
from daedal.isa.latencies import LIMB_BITS, adder_tree_cycles, multiply_latency_cycles

__all__ = [
    "adder_tree",
    "clamp",
    "less",
    "multiply_wide",
    "round_up",
    "saturate",
]


def saturate(value: Value, bits: int) -> Value:
    """Clamp a signed value to the signed range of `bits` bits: `numerics.saturate`."""
    if len(value) <= bits:
        return value
    excess = value[bits - 1 :]
    sign = value[-1]
    fits = excess.all() | ~excess.any()
    limit = Cat((~sign).replicate(bits - 1), sign)
    return Mux(fits, value[:bits], limit).as_signed()


def clamp(value: Value, low: Value, high: Value) -> Value:
    """``min(max(value, low), high)``, signed, for low <= high: `numpy.clip`.

    The bits of a wide value above those of the bounds are compared separately, so that no carry
    chain is longer than a bound.
    """
    bits = min(max(len(low), len(high)), len(value))
    excess, sign = value[bits - 1 :], value[-1]
    above, below = ~sign & excess.any(), sign & ~excess.all()
    near = value[:bits].as_signed()
    over = above | (~below & less(high, near))
    under = below | (~above & less(near, low))
    return Mux(over, high, Mux(under, low, near))


def less(a: Value, b: Value) -> Value:
    """``a < b``, signed, as the sign of one subtraction.

    For a comparison, synthesis for ECP5 takes the last two carries out of the carry chain; each
    then costs another two hops of routing.
    """
    return (a - b)[-1]


def round_up(floor: Value, guard: Value, sticky: Value) -> Value:
    """Whether a shifted-out fraction rounds up, half to even: `numerics.round_half_even_shift`.

    `guard` is the highest bit that was dropped, `sticky` whether any lower one was set.
    """
    return guard & (sticky | floor[0])


def adder_tree(m: Module, terms: list[Value], *, name: str) -> Value:
    """Sum of signed terms in a balanced tree, one registered addition per level.

    Its latency is `isa.latencies.adder_tree_cycles`.
    """
    for level in range(adder_tree_cycles(len(terms))):
        sums = []
        for number in range(0, len(terms) - 1, 2):
            total = terms[number] + terms[number + 1]
            sums.append(register(m, total, name=f"{name}_{level}_{number // 2}"))
        if len(terms) % 2:
            sums.append(register(m, terms[-1], name=f"{name}_{level}_{len(terms) // 2}"))
        terms = sums
    return terms[0]


def _limbs(value: Value) -> list[Value]:
    """Split a value into unsigned limbs of `LIMB_BITS` bits; the highest limb is signed."""
    is_signed = value.shape().signed
    limbs = []
    top = len(value)
    offset = 0
    while top - offset > LIMB_BITS + int(is_signed):
        limbs.append(value[offset : offset + LIMB_BITS])
        offset += LIMB_BITS
    rest = value[offset:]
    limbs.append(rest.as_signed() if is_signed else rest)
    return limbs


def _operand_limbs(operand: Operand) -> list[Operand]:
    both = zip(_limbs(operand.value), _limbs(operand.held), strict=True)
    return [Operand(value, held) for value, held in both]


def multiply_wide(m: Module, platform: Platform, a: Operand, b: Operand, *, name: str) -> Value:
    """Exact product of two operands wider than a multiplier: registered limb products, then sums.

    `a` is signed, `b` unsigned. The product comes `isa.latencies.multiply_latency_cycles` after the
    operands' registers.
    """
    partials = []
    for i, x in enumerate(_operand_limbs(a)):
        for j, y in enumerate(_operand_limbs(b)):
            product = registered_product(m, platform, x, y, name=f"{name}_product{i}{j}")
            shift = LIMB_BITS * (i + j)
            partials.append(product if shift == 0 else product << shift)
    require_at_elaboration(
        1 + adder_tree_cycles(len(partials)) == multiply_latency_cycles(len(a.held), len(b.held)),
        "a product must come when it is expected: multiply_latency_cycles must count its limbs",
    )
    total = adder_tree(m, partials, name=f"{name}_sum")
    exact = Signal(signed(len(a.held) + len(b.held) + 1))
    m.d.comb += exact.eq(total)
    return exact
