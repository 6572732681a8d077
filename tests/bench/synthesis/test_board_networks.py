"""Networks on a board's memory: differences are found, missing ones said, and none runs twice."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.changes.ledger_models import MissingModel
from bench.correctness.profile_differences import model_profile
from bench.correctness.rtl_launches import expected_memories, placed
from bench.left_out import LeftOut
from bench.synthesis import board_networks
from bench.synthesis.board_networks import (
    Compared,
    RtlNetwork,
    compare,
    joined,
    run_networks,
    run_programs,
)
from daedal.isa.memory_model import PRESETS
from daedal.isa.random_programs import random_program
from daedal.isa.registers import ErrorCode
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from daedal.sim.rtl.launch import Launch, Outcome

TINY = load_variant("tiny")
MEMORY = PRESETS["ulx3s"]


class Fake:
    """Counts what the model counts, and leaves the right bytes, but for what is planted."""

    variant = TINY

    def __init__(self, more_cycles: int = 0, other_bytes: int = 0) -> None:
        self._more, self._other = more_cycles, other_bytes
        self.launched = 0

    def launch_each(self, launches: Sequence[Launch]) -> list[Outcome]:
        self.launched += len(launches)
        return [
            self._outcome(launch, after)
            for launch, after in zip(launches, expected_memories(launches), strict=True)
        ]

    def _outcome(self, launch: Launch, after: bytes) -> Outcome:
        profile = model_profile(launch)
        profile = replace(profile, cycles=(profile.cycles or 0) + self._more)
        memory = bytes(byte ^ 1 for byte in after[: self._other]) + after[self._other :]
        return Outcome(profile, ErrorCode.NONE, Unit.LOAD, 0, memory=memory)


@pytest.fixture
def launches() -> list[Launch]:
    return [placed(random_program(TINY, seed, length=8), MEMORY) for seed in (0, 1)]


@pytest.mark.parametrize(("more_cycles", "other_bytes"), [(0, 0), (3, 0), (0, 5)])
def test_cycles_and_bytes_that_differ_are_found(
    launches: list[Launch], more_cycles: int, other_bytes: int
) -> None:
    found = compare(Fake(more_cycles, other_bytes), launches, expected_memories(launches))  # type: ignore[arg-type]
    assert found.launches == 2
    assert found.cycles - found.model_cycles == 2 * more_cycles
    assert found.differences == (2 if more_cycles else 0)
    assert ("launch 0: cycles" in found.first) == bool(more_cycles)
    assert found.wrong_bytes == 2 * other_bytes
    assert found.num_bytes == sum(len(launch.memory) for launch in launches)
    passed = [record.passed for record in found.measured("it")]
    assert passed == [not more_cycles, not more_cycles, not other_bytes]


def test_parts_are_added_and_the_first_difference_stays() -> None:
    parts = [
        Compared(1, 5, 5, 0, 7, 0),
        Compared(2, 6, 5, 1, 7, 2, "a"),
        Compared(1, 1, 0, 1, 1, 0, "b"),
    ]
    assert joined(parts) == Compared(4, 12, 10, 2, 15, 2, "a")


def test_programs_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake()
    monkeypatch.setattr(board_networks, "CYCLES", tmp_path)
    monkeypatch.setattr(board_networks, "PROGRAMS_AT_ONCE", 2)
    monkeypatch.setattr(board_networks, "rtl_device", lambda *_args, **_options: fake)
    texts: list[str] = []
    runs = [list(run_programs(MEMORY, 7, 3, texts.append)) for _ in range(2)]
    assert runs[0] == runs[1]
    assert fake.launched == 3
    assert all(record.passed for record in runs[0])
    assert "seeds 7 to 9 on tiny" in runs[0][0].name


def test_a_missing_network_is_said() -> None:
    def model() -> bytes:
        raise MissingModel("needs ../shared/models/none")

    left_out = LeftOut()
    network = RtlNetwork("None", ("tiny",), model)
    assert list(run_networks(MEMORY, left_out, print, [network])) == []
    assert left_out.sentences == ["None needs ../shared/models/none"]
