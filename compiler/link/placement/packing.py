"""Packs bundles of bytes with live ranges into as little memory as possible.

Input: a list of `Bundle`s, each with pieces at fixed offsets and their live ranges. Output: the
offsets of the bundles. The optimum is NP-hard. First fit depends on the order of the bundles, so
several orders are tried, then repairs of the best one. The search stops at a lower bound.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["ALIGNMENT_BYTES", "Bundle", "Piece", "aligned", "largest_live_bytes", "pack"]

ALIGNMENT_BYTES = 64
"""Tensors begin at a whole beat of the widest bus."""

MAX_REPAIRS = 48
"""Repaired orders that are tried: 0.1 s for a network of 200 tensors."""


@dataclass(frozen=True)
class Piece:
    """`size_bytes` bytes at `offset_bytes` of a bundle, live from step `first` to step `last`, both
    included."""

    offset_bytes: int
    size_bytes: int
    first: int
    last: int

    def meets(self, other: "Piece") -> bool:
        """Whether the live ranges overlap."""
        return self.first <= other.last and other.first <= self.last


Bundle = tuple[Piece, ...]
"""Pieces at fixed distances: a tensor, or several that lie in one another."""

Order = list[int]


def aligned(size_bytes: int) -> int:
    """Rounded up to the alignment of tensors."""
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def largest_live_bytes(bundles: Sequence[Bundle]) -> int:
    """A lower bound for any packing: the most bytes live in one step."""
    pieces = [piece for bundle in bundles for piece in bundle]
    change: dict[int, int] = {}
    for piece in pieces:
        change[piece.first] = change.get(piece.first, 0) + piece.size_bytes
        change[piece.last + 1] = change.get(piece.last + 1, 0) - piece.size_bytes
    live = most = 0
    for step in sorted(change):
        live += change[step]
        most = max(most, live)
    return most


def pack(bundles: Sequence[Bundle]) -> list[int]:
    """An offset for each bundle, such that pieces with overlapping live ranges share no byte.

    Offsets are multiples of the alignment. The same bundles give the same offsets.
    """
    return _Packing(bundles).best()


class _Packing:
    """Bundles by number, and for each the others that conflict with it."""

    def __init__(self, bundles: Sequence[Bundle]) -> None:
        self._bundles = bundles
        self._clashes: list[dict[int, list[tuple[int, int]]]] = [{} for _ in bundles]
        for one, other in _neighbours(bundles):
            distances = [
                # With `other` at 0, `one` cannot begin strictly between these two.
                (q.offset_bytes - p.offset_bytes - p.size_bytes,
                 q.offset_bytes + q.size_bytes - p.offset_bytes)
                for p in bundles[one] for q in bundles[other] if p.meets(q)
            ]  # fmt: skip
            if distances:
                self._clashes[one][other] = distances
                self._clashes[other][one] = [(-high, -low) for low, high in distances]
        self._sizes = [
            max(piece.offset_bytes + piece.size_bytes for piece in bundle) for bundle in bundles
        ]

    def best(self) -> list[int]:
        """The offsets of the best order."""
        bound = aligned(largest_live_bytes(self._bundles))
        best: list[int] = []
        order: Order = []
        for candidate in self._orders():
            offsets = self._first_fit(candidate)
            if not best or self._peak(offsets) < self._peak(best):
                best, order = offsets, candidate
            if self._peak(best) <= bound:
                return best
        offsets = best
        for _ in range(MAX_REPAIRS):
            order = self._repaired(order, offsets)
            offsets = self._first_fit(order)
            if self._peak(offsets) < self._peak(best):
                best = offsets
            if self._peak(best) <= bound:
                break
        return best

    def _orders(self) -> Iterator[Order]:
        """The orders: by size, by size times live range, by the fullest step, and as given."""
        numbers = range(len(self._bundles))
        spans = [
            max(piece.last for piece in bundle) - min(piece.first for piece in bundle) + 1
            for bundle in self._bundles
        ]
        firsts = [min(piece.first for piece in bundle) for bundle in self._bundles]
        yield sorted(numbers, key=lambda n: (-self._sizes[n], firsts[n], n))
        yield sorted(numbers, key=lambda n: (-self._sizes[n] * spans[n], firsts[n], n))
        yield self._by_fullest_step()
        yield sorted(numbers, key=lambda n: (firsts[n], n))
        yield sorted(numbers, key=lambda n: (-firsts[n], n))

    def _by_fullest_step(self) -> Order:
        """The bundles live in the step with the most bytes first, largest first."""
        live: dict[int, dict[int, int]] = {}
        for number, bundle in enumerate(self._bundles):
            for piece in bundle:
                for step in range(piece.first, piece.last + 1):
                    there = live.setdefault(step, {})
                    there[number] = there.get(number, 0) + piece.size_bytes
        order: dict[int, None] = {}
        for step in sorted(live, key=lambda step: (-sum(live[step].values()), step)):
            there = live[step]
            order.update(dict.fromkeys(sorted(there, key=lambda n: (-self._sizes[n], n))))
        return list(order)

    def _first_fit(self, order: Order) -> list[int]:
        """Place each bundle at the lowest offset that the ones before it leave free."""
        offsets = [-1] * len(order)
        for number in order:
            forbidden = sorted(
                (offsets[other] + low, offsets[other] + high)
                for other, distances in self._clashes[number].items()
                if offsets[other] >= 0
                for low, high in distances
            )
            offset = 0
            for low, high in forbidden:
                if offset <= low:
                    break
                if offset < high:
                    offset = aligned(high)
            offsets[number] = offset
        return offsets

    def _repaired(self, order: Order, offsets: list[int]) -> Order:
        """The order with the highest bundle moved before all that it conflicts with."""
        top = max(order, key=lambda n: (offsets[n] + self._sizes[n], -n))
        place = min((order.index(other) for other in self._clashes[top]), default=0)
        place = min(place, order.index(top))
        if order[place] == top:
            # It came first already: the bundles below it have to be packed more tightly.
            place = 0
        rest = [number for number in order if number != top]
        return [*rest[:place], top, *rest[place:]]

    def _peak(self, offsets: Sequence[int]) -> int:
        return max(
            (aligned(offset + size) for offset, size in zip(offsets, self._sizes, strict=True)),
            default=0,
        )


def _neighbours(bundles: Sequence[Bundle]) -> Iterator[tuple[int, int]]:
    """Pairs of bundles whose ranges from first to last step overlap."""
    spans = sorted(
        (min(piece.first for piece in bundle), max(piece.last for piece in bundle), number)
        for number, bundle in enumerate(bundles)
    )
    active: list[tuple[int, int]] = []
    for first, last, number in spans:
        active = [(end, other) for end, other in active if end >= first]
        for _, other in active:
            yield number, other
        active.append((last, number))
