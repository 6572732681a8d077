"""Tokens as pairs of instructions, and starts that came too early."""

import pytest

from daedal.common.errors import DeviceError
from daedal.isa.assembly import assemble
from daedal.sim.trace.order import Early, early_starts, token_sources

PROGRAM = assemble(
    """
    LOAD push=GEMM
    LOAD push=GEMM,ALU
    GEMM pop=LOAD push=ALU
    GEMM pop=LOAD
    ALU pop=LOAD,GEMM
    FINISH
    """
)


def test_the_nth_pop_takes_the_nth_push() -> None:
    assert token_sources(PROGRAM) == [(), (), (0,), (1,), (1, 2), ()]


def test_a_pop_without_a_token_is_refused() -> None:
    with pytest.raises(
        DeviceError,
        match=r"every pop must find a token in program order; instruction 1 \(ALU\) finds none "
        "from GEMM",
    ):
        token_sources([PROGRAM[1], PROGRAM[4]])


def test_a_start_has_to_come_after_the_end_of_every_giver() -> None:
    sources = token_sources(PROGRAM)
    done = {0: 10, 1: 20, 2: 25}
    assert early_starts(sources, {0: 1, 1: 2, 2: 11, 3: 21, 4: 26}, done) == []
    # The cycle of the end is one too early: the token can be taken in the next.
    assert early_starts(sources, {2: 11, 3: 20, 4: 26}, done) == [Early(3, 20, 1, 20)]


def test_a_giver_that_is_never_done() -> None:
    assert early_starts(token_sources(PROGRAM), {3: 5}, {0: 1}) == [Early(3, 5, 1, None)]
