"""The coverage table: hand-written programs meet what they should, and random ones all of it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.correctness.coverage import Coverage
from bench.correctness.coverage_goals import goals
from bench.correctness.random_runs import every_variant, ledger_of
from daedal.isa.assembly import assemble
from daedal.isa.program import Program
from daedal.isa.random_programs import random_program
from daedal.isa.variant import Variant, load_variant

TINY = load_variant("tiny")
TABLES = every_variant()["tables"]
MIXED = every_variant()["mixed"]
FIRST = "LOAD memory=UOP_ALU blocks=1 rows=1 cols=2\n"
ONCE = "extent0=1 extent1=1 extent2=1"


def met(text: str, constants: bytes = bytes(4096), variant: Variant = TINY) -> set[str]:
    """Goals that a program on `variant` meets; its regions have a page each."""
    program = Program(variant, tuple(assemble(text)), constants, (4096, 4096, 4096, 4096))
    coverage = Coverage(variant)
    coverage.add(program)
    return {goal for goal, count in coverage.counts.items() if count}


def test_goals_have_names_of_their_own() -> None:
    for variant in every_variant().values():
        names = goals(variant)
        assert len(names) == len(set(names)) > 250


def test_depthwise_is_a_goal_only_where_it_exists() -> None:
    assert "GEMM: DEPTHWISE accumulates" in goals(TINY)
    assert "GEMM: DEPTHWISE accumulates" not in goals(every_variant()["deep"])
    assert "GEMM: DEPTHWISE3 from row 3 of 4" in goals(TINY)
    assert "DEPTHWISE3" not in "".join(goals(load_variant("int4")))


def test_where_three_taps_lie() -> None:
    """Rows 5 to 7 with vectors 1 to 3 of a weight row, then 6 to 8 with those of the next one."""
    load = "LOAD memory=UOP_GEMM blocks=1 rows=1 cols=1\n"
    line = f"GEMM mode=DEPTHWISE3 uop_end=1 {ONCE.replace('extent2=1', 'extent2=2')}"
    found = met(f"{load}{line} inp_base=5 inp_factor2=1 wgt_base=1 wgt_factor2=8")
    assert {goal for goal in found if goal.startswith("GEMM: DEPTHWISE3")} == {
        "GEMM: DEPTHWISE3 accumulates",
        "GEMM: DEPTHWISE3 from row 1 of 4",
        "GEMM: DEPTHWISE3 from row 2 of 4",
        "GEMM: DEPTHWISE3 up to the inner vector of a weight row",
        "GEMM: DEPTHWISE3 inp moves by 1",
        "GEMM: DEPTHWISE3 wgt moves by a weight row",
    }


def test_a_chain_of_vectors() -> None:
    """dst = row 0, 1, 2; src = row 2, 1, 0: the last reads what the one before the last wrote."""
    found = met(
        FIRST + f"ALU operation=ADD destination=ACC uop_end=1 {ONCE.replace('extent2=1', '')}"
        " extent2=3 dst_factor2=1 src_base=0"
    )
    assert "ALU: ADD register ACC truncates" in found
    assert {"hazard: ALU src is dst", "bank: ALU operands in one"} <= found
    assert "hazard: ALU src after dst, ordinary, 0 between" in found
    assert "hazard: ALU src after dst, ordinary, 1 between" in found
    assert "hazard: ALU src after dst, ordinary, 2 between" not in found
    assert "hazard: ALU dst written again, 0 between" not in found


@pytest.mark.parametrize(
    ("immediate", "kind"), [(-1, "negative"), (0, "zero"), (31, "inside"), (32, "beyond")]
)
def test_shift_amounts(immediate: int, kind: str) -> None:
    shift = f"ALU operation=SHR use_immediate=1 immediate={immediate} destination=OUT"
    found = met(f"{FIRST}{shift} uop_end=1 {ONCE}")
    assert {goal for goal in found if "amount" in goal} == {f"ALU: SHR amount {kind}"}


def test_overwriting_again() -> None:
    """One accumulator, twice in a row; the second product overwrites only where it is told to."""
    constants = (1 << 63).to_bytes(8, "little") + bytes(4088)
    line = f"GEMM mode=DENSE uop_end=1 {ONCE.replace('extent1=1', 'extent1=2')}"
    load = "LOAD memory=UOP_GEMM blocks=1 rows=1 cols=2\n"
    found = met(load + line, constants)
    assert "hazard: GEMM acc accumulates with 0 between" in found
    assert "hazard: GEMM acc overwrites with 0 between" not in found


def test_tokens_order_what_shares_a_bank() -> None:
    acc = "LOAD memory=ACC blocks=1 rows=1 cols=1"
    store = "STORE memory=ACC base=outputs blocks=1 rows=1 cols=1"
    assert "bank: LOAD beside STORE" in met(f"{acc}\n{store}")
    ordered = met(f"{acc} push=STORE\n{store} pop=LOAD")
    assert "bank: LOAD beside STORE" not in ordered
    assert {"tokens: LOAD to STORE", "tokens: 1 taken at once"} <= ordered


LOAD_TABLE = "LOAD memory=TAB blocks=1 rows=1 cols={} row={}\n"
LOOKUP = f"ALU operation=LOOKUP destination=OUT uop_end=1 {ONCE}"


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        (f"{LOOKUP}\n", {"in table 0"}),
        (
            LOAD_TABLE.format(8, 8) + f"{LOOKUP} table=1\n",
            {"in table 1", "in table 1 of which every entry was loaded"},
        ),
        (
            LOAD_TABLE.format(7, 8) + f"{LOOKUP} table=1\n{LOOKUP} table=0\n",
            {
                *("in table 0", "in table 1", "in another table than the one before"),
                "while another table is loaded",
            },
        ),
        (
            f"{LOOKUP} push=LOAD\n"
            f"LOAD memory=TAB blocks=1 rows=1 cols=1 row=7 pop=ALU push=ALU\n{LOOKUP} pop=LOAD\n",
            {"in table 0", "in a table that was loaded after an earlier LOOKUP in it"},
        ),
    ],
)
def test_what_lookups_meet(text: str, ends: set[str]) -> None:
    found = met(FIRST + text, variant=TABLES)
    tables = {goal for goal in found if goal.startswith("ALU: LOOKUP ") and "register" not in goal}
    assert tables == {f"ALU: LOOKUP {end}" for end in ends}


@pytest.mark.parametrize(
    ("line", "goals_met"),
    [
        ("SUM_LANES destination=ACC", {"ALU: SUM_LANES register ACC truncates"}),
        (
            "MAX_LANES use_immediate=1 saturate=1",
            {"ALU: MAX_LANES immediate OUT saturates"},
        ),
        (
            "REQUANTIZE destination=ACC wide=1",
            {"ALU: REQUANTIZE register ACC truncates", "ALU: REQUANTIZE wide ACC"},
        ),
    ],
)
def test_options_of_the_alu(line: str, goals_met: set[str]) -> None:
    found = met(f"{FIRST}ALU operation={line} uop_end=1 {ONCE}", variant=MIXED)
    kinds = ("SUM_LANES", "MAX_LANES", "REQUANTIZE")
    assert {goal for goal in found if any(kind in goal for kind in kinds)} == goals_met
    # Neither reads the row that it writes; with an immediate no row is read.
    reads = {goal for goal in found if goal.startswith(("hazard: ALU src", "bank: ALU operands"))}
    assert reads == ({"hazard: ALU src is dst"} if "destination=ACC" in line else set())


ADD = f"ALU operation=ADD destination=OUT uop_end=1 {ONCE}"
MULTIPLY = f"GEMM mode=DENSE_OUT uop_end=1 {ONCE}"
ALU_THEN_GEMM = "hazard: GEMM multiplies rows of OUT that the ALU's last instruction wrote"
GEMM_THEN_ALU = "hazard: ALU writes rows of OUT that GEMM's last instruction multiplied"


@pytest.mark.parametrize(
    ("text", "goals_met"),
    [
        (f"{ADD} push=GEMM\n{MULTIPLY} pop=ALU\n", {ALU_THEN_GEMM}),
        # The row is not that of the ALU's last instruction, which the token comes from.
        (f"{ADD}\n{ADD} dst_base=1 push=GEMM\n{MULTIPLY} pop=ALU\n", set()),
        (f"{MULTIPLY} push=ALU\n{ADD} pop=GEMM\n", {GEMM_THEN_ALU}),
        (f"{MULTIPLY.replace('_OUT', '')} push=ALU\n{ADD} pop=GEMM\n", set()),
        (f"{MULTIPLY}\n{ADD} dst_base=1\n", {"out: GEMM beside ALU"}),
        (
            f"{MULTIPLY} inp_base=255\nSTORE base=outputs blocks=1 rows=1 cols=1\n",
            {"out: GEMM beside STORE", "range: GEMM multiplies the last row of out"},
        ),
    ],
)
def test_three_users_of_out(text: str, goals_met: set[str]) -> None:
    found = met(text, variant=MIXED)
    names = ("out: ", "hazard: GEMM mul", "hazard: ALU writes rows", "range: GEMM")
    assert {goal for goal in found if goal.startswith(names)} == goals_met


def test_pads_and_empty_transfers() -> None:
    found = met(
        "LOAD memory=INP blocks=1 rows=0 cols=1 pad_top=1 pad_value=-3\n"
        "LOAD memory=ACC_NARROW blocks=1 rows=1 cols=1 pad_left=1\n"
        "STORE memory=OUT blocks=0 rows=1 cols=1"
    )
    assert {"LOAD: INP only pads", "LOAD: INP pad value negative", "LOAD: rows is 0"} <= found
    assert {"LOAD: ACC_NARROW pad left", "LOAD: ACC_NARROW", "STORE: blocks is 0"} <= found
    assert "LOAD: INP" not in found


@pytest.mark.parametrize("name", ["tiny", "wide", "deep", "large", "tables", "results"])
def test_two_hundred_programs_meet_every_goal(name: str) -> None:
    variant = every_variant()[name]
    programs = (random_program(variant, seed).program for seed in range(200))
    assert Coverage(variant).add_all(programs).missing() == []


def test_the_ledger_of_a_long_run_has_a_name_for_each_machine() -> None:
    """All of its sources are there."""
    names = {ledger_of(_built(name)).name for name in ("one", "other")}
    assert len(names) == 2


def _built(folder: str) -> Any:
    """A device as far as `ledger_of` asks: a variant, and a simulator in a folder."""
    program = Path(folder) / "simulator"
    return SimpleNamespace(variant=TINY, build=lambda: SimpleNamespace(program=program))
