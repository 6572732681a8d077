"""The tests' own machine of units and tokens: who may start, what is left, and what orders."""

import numpy as np
import pytest

from daedal.isa.assembly import assemble
from daedal.isa.program import Program
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from tests.support.interleaving import (
    UNITS,
    Interleaver,
    Policy,
    Replay,
    delaying,
    in_program_order,
    preferring,
    wandering,
    withholding,
)

TINY = load_variant("tiny")
COPY = "blocks=1 rows=1 cols=1"


def units(text: str) -> Interleaver:
    return Interleaver(program(text))


def program(text: str) -> Program:
    return Program(TINY, tuple(assemble(f"{text}\nFINISH")), bytes(64), (64, 64, 64, 64))


CHAIN = "LOAD push=GEMM\nLOAD push=GEMM\nGEMM pop=LOAD push=STORE\nSTORE pop=GEMM\nGEMM pop=LOAD"


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        (in_program_order(), (0, 1, 2, 3, 4)),
        (preferring(UNITS), (0, 1, 2, 4, 3)),
        (preferring((Unit.STORE, Unit.GEMM, Unit.LOAD)), (0, 2, 3, 1, 4)),
        (delaying(1), (0, 2, 3, 1, 4)),
        (withholding(1), (0, 2, 3)),
        (withholding(2), (0, 1)),
    ],
)
def test_policies(policy: Policy, order: tuple[int, ...]) -> None:
    run = units(CHAIN).run(policy)
    assert run.order == order
    assert run.most_tokens == (1 if order[1] == 2 else 2)


def test_a_random_order_keeps_to_the_tokens() -> None:
    rng = np.random.default_rng(3)
    orders = {units(CHAIN).run(wandering(rng)).order for _ in range(200)}
    assert orders == {(0, 1, 2, 3, 4), (0, 1, 2, 4, 3), (0, 2, 1, 3, 4), (0, 2, 1, 4, 3)} | {
        (0, 2, 3, 1, 4)
    }


def test_what_waits_for_ever_and_what_is_left() -> None:
    run = units("LOAD push=GEMM,ALU\nGEMM pop=LOAD,STORE\nSTORE pop=GEMM").run(preferring(UNITS))
    assert run.order == (0,)
    assert run.stuck == {Unit.GEMM: 1, Unit.STORE: 2}
    assert run.left == {(Unit.LOAD, Unit.GEMM): 1, (Unit.LOAD, Unit.ALU): 1}


def test_a_token_from_behind_is_too_late_in_program_order() -> None:
    late = units("GEMM pop=LOAD\nLOAD push=GEMM")
    assert late.run(in_program_order()).stuck == {Unit.LOAD: 1, Unit.GEMM: 0}
    assert late.run(preferring(UNITS)).order == (1, 0)


def test_a_replay_shows_the_order() -> None:
    """A store before its load writes what the scratchpad held at first."""
    text = f"LOAD memory=ACC base=inputs {COPY}\nSTORE memory=ACC base=outputs {COPY}"
    replay = Replay(program(text), {1: bytes(range(32))}, np.random.default_rng(4))
    assert replay((0, 1))[64:96] == bytes(range(32))
    early = replay((1, 0))
    assert early[64:96] not in (bytes(32), bytes(range(32)))
    assert replay((1, 0)) == early
