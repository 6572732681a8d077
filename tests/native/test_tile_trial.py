"""When tile registers are used: processor, system and trials must all agree."""

from dataclasses import replace
from pathlib import Path

import pytest

from daedal.native import levels, tile_trial
from daedal.native.bodies.tile_products import TILE_FEATURES
from daedal.native.cpu import host_cpu
from daedal.native.levels import AMX_LEVEL, LEVELS, level_cpu, levels_to_run

HAS_TILES = level_cpu(AMX_LEVEL)


def asked(cpu: object, *answers: bool) -> tuple[str | None, int]:
    """What is found, and how many questions were asked."""
    number = 0

    def answer() -> bool:
        nonlocal number
        number += 1
        return answers[number - 1]

    return tile_trial.problem_of(cpu, answer, answer, answer), number


def test_processor_system_and_trials_must_agree() -> None:
    assert asked(HAS_TILES, True, True, True) == (None, 3)
    for cpu in (
        level_cpu("x86-64-v4-vnni"),
        level_cpu("aarch64"),
        HAS_TILES.without(["amx-int8"]),
        replace(HAS_TILES, triple="aarch64-unknown-linux-gnu"),
    ):
        found, count = asked(cpu)
        assert found is not None and "has no AMX" in found and count == 0
    for number, word in enumerate(("system does not give", "in another process", "products"), 1):
        found, count = asked(HAS_TILES, *[True] * (number - 1), False)
        assert found is not None and word in found and count == number


def test_the_trial_compares_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Emulated; where one of the products is left out, it fails."""
    cpu = host_cpu().without(TILE_FEATURES)
    assert tile_trial.tile_trial(cpu)
    call = "  call void @tile_multiply.t1.t5.t7.13x16x9(ptr %t)\n"
    changed = tile_trial._TEXT.replace(call, "")
    assert changed != tile_trial._TEXT
    monkeypatch.setattr(tile_trial, "_TEXT", changed)
    assert not tile_trial.tile_trial(cpu)


def test_a_level_with_a_problem_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """And others do; the best level is that with AMX where there is no problem."""
    features = HAS_TILES.features | host_cpu().features
    monkeypatch.setattr(levels, "host_cpu", lambda: replace(HAS_TILES, features=features))
    monkeypatch.setattr(levels, "tile_problem", lambda: "AMX is not used")
    assert AMX_LEVEL not in levels_to_run() and "x86-64-v4-vnni" in levels_to_run()
    monkeypatch.setattr(levels, "tile_problem", lambda: None)
    assert levels_to_run()[0] == AMX_LEVEL == next(iter(LEVELS))


def test_a_child_that_ends_by_a_signal_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Such as by an instruction that the processor does not have."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    command = ["python3", "-c", "import os, signal; os.kill(os.getpid(), signal.SIGILL)"]
    monkeypatch.setattr(tile_trial, "python_command", lambda *_: command)
    assert not tile_trial._child_succeeds()
    success = tile_trial._SUCCESS.decode()
    monkeypatch.setattr(tile_trial, "python_command", lambda *_: ["echo", "-n", success])
    assert tile_trial._child_succeeds()
    monkeypatch.setattr(tile_trial, "python_command", lambda *_: command)
    assert tile_trial._child_succeeds(), "it is kept that it succeeded"
