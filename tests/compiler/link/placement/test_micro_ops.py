"""Micro-op sequences: one copy each in memory; loaded together, or by replacement."""

import numpy as np
import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler.link.placement.micro_ops import MicroOpMemory, UopLoad
from daedal.isa.microcode import decode_uops
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant

TINY = load_variant("tiny").replace("eight", gemm_uop_bytes=64)


def _sequence(length: int, seed: int) -> tuple[tuple[int, ...], ...]:
    return tuple((seed, k, 0, int(k == 0)) for k in range(length))


def test_a_layers_sequences_come_in_one_load():
    memory = MicroOpMemory(TINY, Unit.GEMM)
    a, b = _sequence(3, 1), _sequence(2, 2)
    assert memory.bring_in([a, b, a], "layer") == [UopLoad(0, 0, 5)]
    assert (memory.row_of(a), memory.row_of(b)) == (0, 3)
    assert memory.bring_in([b], "layer") == []


def test_older_sequences_are_replaced():
    memory = MicroOpMemory(TINY, Unit.GEMM)
    a, b, c = _sequence(4, 1), _sequence(3, 2), _sequence(4, 3)
    memory.bring_in([a, b], "layer")
    assert (memory.row_of(a), memory.row_of(b)) == (0, 4)
    assert memory.bring_in([c], "layer") == [UopLoad(7, 0, 4)]
    assert memory.row_of(a) is None
    assert memory.row_of(b) == 4
    assert memory.row_of(_sequence(3, 2)) == 4, "an equal sequence is the same"


def test_a_replacement_never_evicts_what_the_layer_itself_needs():
    memory = MicroOpMemory(TINY, Unit.GEMM)
    a, b, c = _sequence(4, 1), _sequence(3, 2), _sequence(4, 3)
    memory.bring_in([a, b], "layer")
    memory.bring_in([a, c], "layer")
    assert None not in (memory.row_of(a), memory.row_of(c))


def test_a_layer_with_too_many_sequences_loads_them_one_by_one():
    memory = MicroOpMemory(TINY, Unit.GEMM)
    a, b = _sequence(5, 1), _sequence(6, 2)
    assert memory.bring_in([a, b], "layer") == []
    assert memory.bring_one(a) == [UopLoad(0, 0, 5)]
    assert memory.row_of(a) == 0
    assert memory.bring_one(b) == [UopLoad(5, 0, 6)]
    assert memory.row_of(a) is None
    assert memory.bring_one(b) == []


def test_the_table_holds_every_sequence_at_its_row():
    memory = MicroOpMemory(TINY, Unit.GEMM)
    a, b = _sequence(3, 1), _sequence(2, 2)
    memory.bring_in([a, b], "layer")
    words = np.frombuffer(memory.table_bytes(), dtype="<u8")
    columns = decode_uops(TINY, Unit.GEMM, words)
    assert columns["acc"].tolist() == [1, 1, 1, 2, 2]
    assert columns["inp"].tolist() == [0, 1, 2, 0, 1]
    assert columns["first"].tolist() == [1, 0, 0, 1, 0]


def test_a_sequence_longer_than_the_memory_is_refused():
    memory = MicroOpMemory(TINY, Unit.GEMM)
    with pytest.raises(ScheduleError, match=r"must fit the 8 micro-ops of GEMM, not take 9"):
        memory.bring_in([_sequence(9, 1)], "layer")
