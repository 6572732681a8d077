"""Comparing the writes of one instruction: every kind of difference, and what is not one."""

import numpy as np
import pytest

from daedal.hw.observe import WritePort, write_ports
from daedal.isa.scratchpad import Memory, scratchpad, scratchpads
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant, shipped_variants
from daedal.sim.trace.compare import Found, compare_beats, compare_writes
from daedal.sim.trace.difference import Difference, Kind
from daedal.sim.trace.expected import Expected

TINY = load_variant("tiny")
PORTS = {port.name: port for port in write_ports(TINY)}
ACC, INP = PORTS["acc_gemm"], PORTS["inp_load"]
COLUMNS = ACC.columns
PLACES = (np.array([5, 5, 9])[:, None] * COLUMNS + np.arange(COLUMNS)).reshape(-1)
COUNT = len(PLACES)


def values(count: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 256, (count, 8)).astype(np.uint8)


def compared(
    found: tuple[np.ndarray, np.ndarray],
    expected: tuple[np.ndarray, np.ndarray],
    *,
    port: WritePort = ACC,
    ordered: bool = True,
    complete: bool = True,
) -> Difference | None:
    """Compare (places, data) on both sides; the machine writes from cycle 100 on."""
    cycles = 100 + np.arange(len(found[0]))
    machine = Found(cycles, found[0], found[1], complete)
    return compare_writes(TINY, port, 7, machine, Expected(*expected, ordered))


def final(data: np.ndarray) -> np.ndarray:
    """What the places end with: the functional side knows nothing of values in between."""
    result = data.copy()
    result[:COLUMNS] = result[COLUMNS : 2 * COLUMNS]
    return result


def test_equal_writes_are_no_difference(rng: np.random.Generator) -> None:
    data = values(COUNT, rng)
    assert compared((PLACES, data), (PLACES, final(data))) is None
    nothing = (PLACES[:0], data[:0])
    assert compared(nothing, nothing) is None


def test_a_value_is_named_with_its_row_and_element(rng: np.random.Generator) -> None:
    data = values(COUNT, rng)
    wrong = data.copy()
    wrong[-1] = np.array([1, 0, 0, 0, 254, 255, 255, 255])
    data[-1] = np.array([1, 0, 0, 0, 3, 0, 0, 0])
    difference = compared((PLACES, wrong), (PLACES, final(data)))
    assert difference is not None
    assert (difference.kind, difference.instruction, difference.unit) == (Kind.VALUE, 7, Unit.GEMM)
    assert (difference.memory, difference.row, difference.cycle) == (Memory.ACC, 9, 99 + COUNT)
    elements = scratchpad(TINY, Memory.ACC).elements // COLUMNS
    first = elements * (COLUMNS - 1)
    assert difference.elements == tuple(range(first, first + elements))
    assert difference.expected[:2] == (1, 3)
    assert difference.found[:2] == (1, -2)
    assert difference.sentence == (
        f"leaves -2 instead of 3 in element {first + 1} of row 9 of acc, "
        f"written in cycle {99 + COUNT}"
    )


def test_only_what_a_place_ends_with_counts(rng: np.random.Generator) -> None:
    data = values(COUNT, rng)
    between = data.copy()
    between[0] ^= 1
    assert compared((PLACES, between), (PLACES, final(data))) is None


def test_another_row_than_the_next(rng: np.random.Generator) -> None:
    data = values(COUNT, rng)
    places = PLACES.copy()
    places[2 * COLUMNS :] += COLUMNS
    difference = compared((places, data), (PLACES, final(data)))
    assert difference is not None
    assert (difference.kind, difference.row, difference.place_expected) == (Kind.PLACE, 10, 9)
    assert "row 10 of acc" in difference.sentence
    assert "instead of row 9" in difference.sentence


@pytest.mark.parametrize(("count", "kind"), [(COUNT - 1, Kind.MISSING), (COUNT + 1, Kind.EXTRA)])
def test_too_few_and_too_many(count: int, kind: Kind, rng: np.random.Generator) -> None:
    data = values(COUNT + 1, rng)
    places = np.append(PLACES, 20 * COLUMNS)
    difference = compared((places[:count], data[:count]), (PLACES, final(data[:COUNT])))
    assert difference is not None
    assert difference.kind is kind
    assert difference.row == (9 if kind is Kind.MISSING else 20)
    assert difference.cycle == (None if kind is Kind.MISSING else 100 + COUNT)


def test_an_unfinished_instruction_lacks_nothing(rng: np.random.Generator) -> None:
    data = values(COUNT, rng)
    assert compared((PLACES[:3], data[:3]), (PLACES, final(data)), complete=False) is None
    order = np.array([3, 0])
    places = np.arange(4)
    assert (
        compared(
            (places[order], data[order]),
            (places, data[:4]),
            port=INP,
            ordered=False,
            complete=False,
        )
        is None
    )


def test_load_may_write_in_any_order(rng: np.random.Generator) -> None:
    places, data = np.arange(6), values(6, rng)
    order = rng.permutation(6)
    expected = (places, data)
    assert compared((places[order], data[order]), expected, port=INP, ordered=False) is None
    missing = order[order != 2]
    difference = compared((places[missing], data[missing]), expected, port=INP, ordered=False)
    assert difference is not None
    assert (difference.kind, difference.row) == (Kind.MISSING, 2)
    data = data.copy()
    wrong = data[order]
    wrong[3] ^= 1
    difference = compared((places[order], wrong), expected, port=INP, ordered=False)
    assert difference is not None
    assert (difference.kind, difference.row, difference.cycle) == (Kind.VALUE, order[3], 103)


def test_words_of_memory(rng: np.random.Generator) -> None:
    places, data = np.array([0x100, 0x108, 0x200]), values(3, rng)
    whole = np.ones((3, 8), dtype=bool)
    cycles = np.arange(3)

    def stored(
        where: np.ndarray, what: np.ndarray, strobes: np.ndarray, complete: bool = True
    ) -> Difference | None:
        machine = Found(cycles[: len(where)], where, what, complete)
        return compare_beats(4, machine, strobes, Expected(places, data, True))

    assert stored(places, data, whole) is None
    assert stored(places[:1], data[:1], whole[:1], complete=False) is None
    partial = whole.copy()
    partial[1, 6] = False
    difference = stored(places, data, partial)
    assert difference is not None
    assert (difference.kind, difference.elements) == (Kind.PARTIAL, (6,))
    assert "byte 0x10e" in difference.sentence
    wrong = data.copy()
    wrong[2, 5] ^= 0xFF
    difference = stored(places, wrong, whole)
    assert difference is not None
    assert (difference.kind, difference.row) == (Kind.VALUE, 0x200)
    assert "byte 0x205" in difference.sentence
    difference = stored(places + np.array([0, 0, 8]), data, whole)
    assert difference is not None
    assert (difference.kind, difference.row, difference.place_expected) == (
        Kind.PLACE,
        0x208,
        0x200,
    )
    difference = stored(places[:2], data[:2], whole[:2])
    assert difference is not None
    assert (difference.kind, difference.row) == (Kind.MISSING, 0x200)


@pytest.mark.parametrize("name", sorted(shipped_variants()))
def test_ports_cover_every_scratchpad(name: str) -> None:
    """Rows times columns of each port are the bits of its memory, in every variant."""
    variant = load_variant(name)
    ports = write_ports(variant)
    assert len({port.name for port in ports}) == len(ports)
    assert {port.memory for port in ports} == set(scratchpads(variant))
    for port in ports:
        pad = scratchpad(variant, port.memory)
        assert port.depth * port.columns * port.column_bits == pad.depth_rows * pad.row_bits
        assert port.depth == pad.depth_rows * port.slices
