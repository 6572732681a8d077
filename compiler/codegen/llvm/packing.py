"""`packed_store`: results of 8 bits that several vectors store side by side.

A vector of int32 is bounded and narrowed by itself; several are by fewer instructions together
(`native.bodies.packed_bytes`), and stored at once.
"""

from dataclasses import dataclass

from daedal.compiler.tir.expr import Binary, Call, Cast, Expr, IntImm
from daedal.compiler.tir.linear import accessed_element
from daedal.compiler.tir.stmt import BufferStore, For

__all__ = ["PACKED_LANES", "PackedStore", "packed_store"]

PACKED_LANES, COUNTS = 16, (2, 4)
"""Of a vector, and how many are packed."""


@dataclass(frozen=True)
class PackedStore:
    """Bytes that are stored: ``min(max(clip(source + offset, 0, 255), low), high)``.

    Attributes
    ----------
    source : an int32 whose sum with `offset` is one, too.
    flipped : whether the sign bit is stored the other way round, as an int8.
    """

    source: Expr
    offset: int
    low: int
    high: int
    flipped: bool


def packed_store(vectors: For) -> PackedStore | None:
    """What the vectors of an unrolled loop store; None where these are no clipped bytes that lie
    side by side."""
    lanes = vectors.body
    if vectors.kind != "unroll" or vectors.extent not in COUNTS or not isinstance(lanes, For):
        return None
    store = lanes.body
    if lanes.kind != "vectorize" or lanes.extent != PACKED_LANES:
        return None
    if not isinstance(store, BufferStore) or store.buffer.dtype not in ("int8", "uint8"):
        return None
    form = accessed_element(store)
    steps = form.coefficient(lanes.var), form.coefficient(vectors.var)
    return _packed(store.value) if steps == (1, PACKED_LANES) else None


def _packed(value: Expr) -> PackedStore | None:
    """The parts of ``int8(clip(source, low, high) + zero)``, or of that as an uint8 128 above."""
    flipped = True
    match value:
        case Call("bit_xor", (Cast("uint8", inner), IntImm(128))):
            value, flipped = inner, False
    if not isinstance(value, Cast) or value.dtype != "int8":
        return None
    value, zero = value.value, 0
    match value:
        case Binary("+" | "-" as op, inner, IntImm(number)):
            value, zero = inner, number if op == "+" else -number
    match value:
        case Binary("min", Binary("max", source, IntImm(low)), IntImm(high)):
            low, high, offset = low + zero + 128, high + zero + 128, zero + 128
            is_bounded = not offset or (isinstance(source, Call) and source.name in _BOUNDED)
            if source.dtype == "int32" and 0 <= low <= high <= 255 and is_bounded:
                return PackedStore(source, offset, low, high, flipped)
    return None


_BOUNDED = frozenset(["nearest_product", "nearest_scaled"])
"""Functions whose results are far from the ends of int32."""
