"""32-bit products on an ALU that multiplies 18 by 18 bits.

Let ``low(x)`` be the low 18 bits as a signed number, which MUL uses of each operand, and ``high(x)
= (x + 2**17) >> 18``. Then x is ``high(x) * 2**18 + low(x)`` modulo 2^32, and so modulo 2^32

    x * y = low(x) * low(y) + ((high(x) * low(y) + low(x) * high(y)) << 18)

where the first term is one MUL and the others need two temporary rows per vector (one where y is
an immediate, whose high part is 0).
"""

from collections.abc import Iterator

from daedal.isa.numerics import IntArray
from daedal.isa.table import AluOp
from daedal.isa.vta.operations import Nest, Vector, listed

__all__ = ["exact_product", "independent_runs"]

_LOW_BITS = 18
_ROUND = -(1 << (_LOW_BITS - 1))
"""Subtracting it adds 2**17, which does not fit a signed 18-bit immediate."""


def independent_runs(dst: IntArray, src: IntArray, limit: int) -> Iterator[slice]:
    """Runs of at most `limit` vectors in which none touches a row that an earlier one writes."""
    begin, written = 0, set[int]()
    for number, (d, s) in enumerate(zip(dst.tolist(), src.tolist(), strict=True)):
        if s in written or d in written or number - begin == limit:
            yield slice(begin, number)
            begin, written = number, set()
        written.add(d)
    yield slice(begin, len(dst))


def exact_product(
    dst: IntArray, src: IntArray, immediate: int | None, temporary: IntArray
) -> list[Vector]:
    """Operations that leave ``acc[dst] * acc[src]`` (or times `immediate`) in ``acc[dst]``.

    The vectors must be independent; `temporary` has two rows for each, which none of them uses.
    """
    one, two = temporary[: len(dst)], temporary[len(dst) : 2 * len(dst)]
    if immediate is not None:
        return [
            *_high(one, dst),
            Vector(AluOp.MUL, listed(dst=one, src=one), immediate),
            Vector(AluOp.SHL, listed(dst=one, src=one), _LOW_BITS),
            Vector(AluOp.MUL, listed(dst=dst, src=dst), immediate),
            Vector(AluOp.ADD, listed(dst=dst, src=one)),
        ]
    return [
        *_high(one, dst),
        *_high(two, src),
        Vector(AluOp.MUL, listed(dst=one, src=src)),
        Vector(AluOp.MUL, listed(dst=two, src=dst)),
        Vector(AluOp.ADD, listed(dst=one, src=two)),
        Vector(AluOp.SHL, listed(dst=one, src=one), _LOW_BITS),
        Vector(AluOp.MUL, listed(dst=dst, src=src)),
        Vector(AluOp.ADD, listed(dst=dst, src=one)),
    ]


def _high(target: IntArray, source: IntArray) -> list[Vector]:
    there: Nest = listed(dst=target, src=target)
    return [
        Vector(AluOp.SUB, listed(dst=target, src=source), _ROUND),
        Vector(AluOp.SHR, there, _LOW_BITS),
    ]
