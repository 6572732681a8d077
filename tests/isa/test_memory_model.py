"""`MemoryModel`: the presets' numbers and the refusals."""

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from daedal.isa.memory_model import PRESETS, MemoryModelError, memory_model


def test_ddr_is_what_the_design_says() -> None:
    ddr = memory_model("ddr")
    assert (ddr.read_latency_cycles, ddr.write_latency_cycles) == (64, 32)
    assert (ddr.max_read_bursts, ddr.max_write_bursts) == (16, 16)
    assert ddr.shared_bus
    assert not ddr.is_random


def test_ideal_is_the_least_that_a_registered_memory_can_do() -> None:
    ideal = memory_model("ideal")
    assert (ideal.read_latency_cycles, ideal.write_latency_cycles) == (1, 1)
    assert not ideal.shared_bus


def test_jitter_stalls_every_channel_and_is_seeded() -> None:
    first, second = memory_model("jitter", 1), memory_model("jitter", 2)
    assert all(first.stall_per_256)
    assert first.is_random
    assert first.generator_state != second.generator_state
    assert first == memory_model("jitter", 1)


def test_every_seed_starts_the_generator() -> None:
    """0 would stand still; SplitMix64 maps exactly one seed to it."""
    states = {memory_model("jitter", seed).generator_state for seed in range(1000)}
    assert len(states) == 1000
    zero = (-0x9E3779B97F4A7C15) % (1 << 64)
    assert memory_model("jitter", zero).generator_state == 1


def test_models_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        PRESETS["ddr"].seed = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"read_latency_cycles": 0}, "read_latency_cycles must be 1 to 65535, not 0"),
        ({"write_latency_cycles": 65536}, "write_latency_cycles must be 1 to 65535, not 65536"),
        ({"max_read_bursts": 65}, "max_read_bursts must be 1 to 64, not 65"),
        ({"max_write_bursts": 0}, "max_write_bursts must be 1 to 64, not 0"),
        ({"stall_per_256": (0, 0, 256, 0, 0)}, "stall_per_256 must be five numbers of 0 to 255"),
        ({"stall_per_256": (0, 0)}, "stall_per_256 must be five numbers of 0 to 255"),
        ({"extra_latency_cycles": 5}, "extra_latency_cycles must be 2..n - 1 up to 255, not 5"),
        ({"seed": -1}, "seed must be 0 to 2..64 - 1, not -1"),
    ],
)
def test_impossible_numbers_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(MemoryModelError, match=message):
        replace(PRESETS["ddr"], **change)


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(MemoryModelError, match="one of ideal, ddr, slow, jitter, ulx3s, not 'hbm'"):
        memory_model("hbm")
