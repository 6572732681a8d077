"""Compares the writes of one instruction: those the machine made with the expected ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.hw.observe import WritePort
from daedal.isa.numerics import IntArray
from daedal.isa.scratchpad import scratchpad
from daedal.isa.table import Unit
from daedal.isa.variant import Variant
from daedal.sim.trace.difference import Difference, Kind
from daedal.sim.trace.expected import Expected

__all__ = ["Found", "compare_beats", "compare_writes"]


@dataclass(frozen=True)
class Found:
    """Writes of an instruction as the machine made them; `places` and `data` as in `Expected`.

    `complete`: the instruction was done, so no further writes will follow.
    """

    cycles: IntArray
    places: IntArray
    data: npt.NDArray[np.uint8]
    complete: bool

    def sorted(self) -> "Found":
        """By place; writes of one place stay in order."""
        order = np.argsort(self.places, kind="stable")
        return Found(self.cycles[order], self.places[order], self.data[order], self.complete)


@dataclass(frozen=True)
class _Mismatch:
    """Index of the mismatching write on each side; None if that side has no such write."""

    kind: Kind
    found: int | None
    expected: int | None


def compare_writes(
    variant: Variant, port: WritePort, number: int, found: Found, expected: Expected
) -> Difference | None:
    """The first difference of instruction `number` at a scratchpad's port, or None.

    The order of places must match, and so must the final value of each place.
    """
    found, expected = _aligned(found, expected)
    wrong = _first_mismatch(found, expected)
    if wrong is None:
        return None
    per_row = port.slices * port.columns
    pad = scratchpad(variant, port.memory)

    def where(place: int) -> tuple[int, int]:
        row, column = divmod(place, per_row)
        return row, column * (pad.elements // per_row)

    common: dict[str, Any] = {"instruction": number, "unit": port.unit, "memory": port.memory}
    name = port.memory.value
    if wrong.found is None:
        assert wrong.expected is not None
        row, element = where(int(expected.places[wrong.expected]))
        sentence = f"never writes row {row} of {name}, from element {element} on"
        return Difference(kind=wrong.kind, row=row, sentence=sentence, **common)
    cycle = int(found.cycles[wrong.found])
    row, element = where(int(found.places[wrong.found]))
    if wrong.kind is not Kind.VALUE:
        sentence = f"writes row {row} of {name} (from element {element} on) in cycle {cycle}"
        wanted = None
        if wrong.expected is not None:
            wanted, first = where(int(expected.places[wrong.expected]))
            sentence += f", instead of row {wanted} (from element {first} on)"
        else:
            sentence += ", once too often"
        return Difference(
            kind=wrong.kind,
            row=row,
            cycle=cycle,
            place_expected=wanted,
            sentence=sentence,
            **common,
        )
    assert wrong.expected is not None
    bits = pad.element_bits
    count = max(1, pad.elements // per_row)
    got = _elements(found.data[wrong.found], bits, count)
    want = _elements(expected.data[wrong.expected], bits, count)
    numbers = tuple(k for k in range(len(got)) if got[k] != want[k])
    sentence = (
        f"leaves {got[numbers[0]]} instead of {want[numbers[0]]} in element "
        f"{element + numbers[0]} of row {row} of {name}, written in cycle {cycle}"
    )
    return Difference(
        kind=Kind.VALUE,
        row=row,
        cycle=cycle,
        elements=tuple(range(element, element + len(got))),
        expected=want,
        found=got,
        sentence=sentence,
        **common,
    )


def compare_beats(
    number: int, found: Found, strobes: npt.NDArray[np.bool_], expected: Expected
) -> Difference | None:
    """The first difference of STORE `number` in external memory, or None.

    `strobes` (n, bytes) belong to `found`: every byte of every word must be written.
    """
    wrong = _first_mismatch(found, expected)
    whole = strobes.all(axis=1)
    common: dict[str, Any] = {"instruction": number, "unit": Unit.STORE}
    if not whole.all() and (wrong is None or int(np.argmin(whole)) <= (wrong.found or 0)):
        at = int(np.argmin(whole))
        address, cycle = int(found.places[at]), int(found.cycles[at])
        missing = np.flatnonzero(~strobes[at])
        return Difference(
            kind=Kind.PARTIAL,
            row=address,
            cycle=cycle,
            elements=tuple(missing.tolist()),
            sentence=f"leaves out byte {address + int(missing[0]):#x} of the word that it writes "
            f"to memory in cycle {cycle}",
            **common,
        )
    if wrong is None:
        return None
    if wrong.found is None:
        assert wrong.expected is not None
        address = int(expected.places[wrong.expected])
        sentence = f"never writes the word at {address:#x} of memory"
        return Difference(kind=wrong.kind, row=address, sentence=sentence, **common)
    address, cycle = int(found.places[wrong.found]), int(found.cycles[wrong.found])
    assert wrong.expected is not None, "beats are given out by number"
    if wrong.kind is Kind.PLACE:
        wanted = int(expected.places[wrong.expected])
        sentence = (
            f"writes the word at {address:#x} of memory in cycle {cycle}, instead of {wanted:#x}"
        )
        return Difference(
            kind=wrong.kind,
            row=address,
            cycle=cycle,
            place_expected=wanted,
            sentence=sentence,
            **common,
        )
    got, want = found.data[wrong.found], expected.data[wrong.expected]
    first = int(np.argmax(got != want))
    return Difference(
        kind=Kind.VALUE,
        row=address,
        cycle=cycle,
        elements=tuple(range(len(got))),
        expected=tuple(want.tolist()),
        found=tuple(got.tolist()),
        sentence=f"leaves {got[first]:#04x} instead of {want[first]:#04x} in byte "
        f"{address + first:#x} of memory, written in cycle {cycle}",
        **common,
    )


def _aligned(found: Found, expected: Expected) -> tuple[Found, Expected]:
    """Both sides in one order: the machine's, or by place where any order is allowed."""
    if expected.ordered:
        return found, expected
    order = np.argsort(expected.places, kind="stable")
    return found.sorted(), Expected(expected.places[order], expected.data[order], False)


def _first_mismatch(found: Found, expected: Expected) -> _Mismatch | None:
    """The mismatch whose write came first; a wrong order precedes wrong values after it."""
    if not expected.ordered and not found.complete:
        # It is unknown which place would have come next: compare only those that were written.
        keep = np.isin(expected.places, found.places)
        expected = Expected(expected.places[keep], expected.data[keep], False)
    both = min(len(found.places), len(expected.places))
    differs = found.places[:both] != expected.places[:both]
    agreed = int(np.argmax(differs)) if differs.any() else both
    wrong = None
    if agreed < both:
        wrong = _Mismatch(Kind.PLACE, agreed, agreed)
        if not expected.ordered and found.places[agreed] > expected.places[agreed]:
            wrong = _Mismatch(Kind.MISSING, None, agreed)
    elif len(found.places) > both:
        wrong = _Mismatch(Kind.EXTRA, both, None)
    elif len(expected.places) > both and found.complete:
        wrong = _Mismatch(Kind.MISSING, None, both)
    last = np.zeros(len(expected.places), dtype=np.bool_)
    _, from_end = np.unique(expected.places[::-1], return_index=True)
    last[len(last) - 1 - from_end] = True
    bad = last[:agreed] & (found.data[:agreed] != expected.data[:agreed]).any(axis=1)
    if bad.any():
        where = np.flatnonzero(bad)
        first = int(where[np.argmin(found.cycles[where])])
        return _Mismatch(Kind.VALUE, first, first)
    return wrong


def _elements(column: npt.NDArray[np.uint8], bits: int, count: int) -> tuple[int, ...]:
    """Signed elements of a column; raw words if the column is narrower than an element."""
    word = int.from_bytes(column.tobytes(), "little")
    if bits * count > 8 * len(column):
        return (word,)
    values = [word >> bits * k & ((1 << bits) - 1) for k in range(count)]
    return tuple(value - (1 << bits) if value >> (bits - 1) else value for value in values)
