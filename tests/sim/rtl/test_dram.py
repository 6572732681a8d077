"""`dram.v` against the rules of isa/memory_model.py, cycle by cycle, on Verilator and Icarus."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daedal.isa.memory_model import PRESETS, MemoryModel, memory_model
from daedal.sim.rtl.build import HDL, build_cocotb
from daedal.sim.rtl.run import run_module
from tests.sim.rtl.memory_reference import MemoryReference

pytestmark = pytest.mark.rtl

WORDS = 512
WORD_BYTES = 8


def settings(model: MemoryModel) -> dict[str, int]:
    return {
        "cfg_read_latency": model.read_latency_cycles,
        "cfg_write_latency": model.write_latency_cycles,
        "cfg_max_reads": model.max_read_bursts,
        "cfg_max_writes": model.max_write_bursts,
        "cfg_shared": int(model.shared_bus),
        "cfg_beat_cycles": model.beat_cycles,
        "cfg_stall": sum(odds << 9 * place for place, odds in enumerate(model.stall_per_256)),
        "cfg_extra_latency": model.extra_latency_cycles,
        "cfg_seed": model.generator_state,
        "fault_first": 0,
        "fault_last": 0,
        "fault_read_resp": 0,
        "fault_write_resp": 0,
        "fault_stop_channels": 0,
        "fault_stop_beats": 0,
    }


@pytest.fixture
def simulator(cocotb_simulator: str) -> str:
    """Not the native one: its main loop knows the harness, and these tests leave it out."""
    return cocotb_simulator


def play(
    simulator: str,
    cache_dir: Path,
    folder: Path,
    model: MemoryModel,
    *,
    reads: list[tuple[int, int, int, int]],
    writes: list[tuple[int, int, int, int, list[tuple[int, int]]]],
    cycles: int,
    gaps: int = 0,
    seed: int = 0,
) -> list[dict[str, int]]:
    """Play `reads` (cycle, id, address, beats) and `writes` (..., [(data, strobe)]); the trace."""
    built = build_cocotb(
        [HDL / "dram.v"],
        top="daedal_dram",
        parameters={"DATA_BITS": 8 * WORD_BYTES, "ADDR_BITS": 32, "WORDS": WORDS},
        cache_dir=cache_dir,
        simulator=simulator,
    )
    plan: dict[str, Any] = {
        "settings": settings(model),
        "reads": reads,
        "writes": writes,
        "cycles": cycles,
        "gaps": gaps,
        "seed": seed,
    }
    folder.mkdir(exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(plan))
    run_module(built, "tests.sim.rtl.cocotb_dram", folder, limit_seconds=120)
    trace: list[dict[str, int]] = json.loads((folder / "trace.json").read_text())
    assert len(trace) == cycles
    return trace


def beats_of(trace: list[dict[str, int]], channel: str) -> list[int]:
    """Cycles in which `channel` moved something."""
    return [
        cycle
        for cycle, row in enumerate(trace)
        if row[f"s_{channel}valid"] and row[f"s_{channel}ready"]
    ]


def data(length: int) -> list[tuple[int, int]]:
    return [(beat + 1, 0xFF) for beat in range(length)]


def test_ddr_latencies_pipelining_and_limits(
    simulator: str, cache_dir: Path, tmp_path: Path
) -> None:
    """Forty 4-beat reads, asked as fast as they are accepted."""
    reads = [(0, n & 3, 32 * n, 4) for n in range(40)]
    trace = play(simulator, cache_dir, tmp_path, PRESETS["ddr"], reads=reads, writes=[], cycles=400)
    asked, moved = beats_of(trace, "ar"), beats_of(trace, "r")
    assert asked[:16] == list(range(16))
    assert len(moved) == 160
    assert moved[0] == asked[0] + 64
    # The sixteen in flight stream back to back, and each end lets one more in, a cycle later.
    assert moved[:64] == list(range(64, 128))
    ends = moved[3::4]
    assert asked[16:32] == [end + 1 for end in ends[:16]]
    starts = moved[0::4]
    for n in range(1, 40):
        assert starts[n] == max(asked[n] + 64, ends[n - 1] + 1)
    assert [trace[cycle]["s_rid"] for cycle in moved] == [
        n & 3 for n in range(40) for _ in range(4)
    ]


def test_ddr_write_acknowledgements(simulator: str, cache_dir: Path, tmp_path: Path) -> None:
    writes = [(0, n & 3, 64 * n, 8, data(8)) for n in range(24)]
    trace = play(
        simulator, cache_dir, tmp_path, PRESETS["ddr"], reads=[], writes=writes, cycles=400
    )
    asked, moved, acks = beats_of(trace, "aw"), beats_of(trace, "w"), beats_of(trace, "b")
    assert asked[:16] == list(range(16))
    assert moved[0] == asked[0] + 1
    assert acks == [end + 32 for end in moved[7::8]]
    assert asked[16:24] == [ack + 1 for ack in acks[:8]]


def test_reads_and_writes_take_turns_by_burst(
    simulator: str, cache_dir: Path, tmp_path: Path
) -> None:
    reads = [(0, 0, 64 * n, 8) for n in range(10)]
    writes = [(70, 0, 2048 + 64 * n, 8, data(8)) for n in range(10)]
    trace = play(
        simulator, cache_dir, tmp_path, PRESETS["ddr"], reads=reads, writes=writes, cycles=400
    )
    read, write = set(beats_of(trace, "r")), set(beats_of(trace, "w"))
    assert not read & write
    order = "".join(
        "r" if cycle in read else "w" for cycle in range(64, 64 + 160) if cycle in read | write
    )
    assert order == ("r" * 8 + "w" * 8) * 10


def test_independent_channels_of_ideal_run_at_once(
    simulator: str, cache_dir: Path, tmp_path: Path
) -> None:
    reads = [(0, 0, 256 * n, 32) for n in range(4)]
    writes = [(0, 0, 256 * n, 32, data(32)) for n in range(4)]
    trace = play(
        simulator, cache_dir, tmp_path, PRESETS["ideal"], reads=reads, writes=writes, cycles=200
    )
    assert beats_of(trace, "r") == list(range(1, 129))
    assert beats_of(trace, "w") == list(range(1, 129))
    assert beats_of(trace, "b") == [33, 65, 97, 129]


STALLING = MemoryModel(
    "stalling", 5, 3, 3, 2, shared_bus=True, stall_per_256=(90, 30, 120, 60, 200), seed=5
)

THREE_CYCLES = MemoryModel("three cycles", 5, 3, 4, 4, shared_bus=False, beat_cycles=3)


@pytest.mark.parametrize(
    ("model", "gaps"),
    [
        (PRESETS["ideal"], 60),
        (PRESETS["slow"], 0),
        (PRESETS["slow"], 60),
        (THREE_CYCLES, 0),
        (THREE_CYCLES, 200),
        (PRESETS["ddr"], 0),
        (PRESETS["ddr"], 60),
        (memory_model("jitter", seed=1), 0),
        (memory_model("jitter", seed=2), 200),
        (STALLING, 60),
    ],
    ids=lambda value: value.name if isinstance(value, MemoryModel) else f"gaps{value}",
)
def test_every_cycle_equals_the_reference(
    simulator: str, cache_dir: Path, tmp_path: Path, model: MemoryModel, gaps: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)

    def burst() -> tuple[int, int, int]:
        length = int(rng.integers(1, 33))
        # Some leave the memory: those beats answer DECERR and change nothing.
        return int(rng.integers(4)), WORD_BYTES * int(rng.integers(WORDS - 16)), length

    reads = [(int(rng.integers(600)), *burst()) for _ in range(60)]
    writes = []
    for _ in range(60):
        number, address, length = burst()
        payload = [
            (int.from_bytes(rng.bytes(WORD_BYTES), "little"), int(rng.integers(256)))
            for _ in range(length)
        ]
        writes.append((int(rng.integers(600)), number, address, length, payload))
    # The memory starts undefined: give every word a value first.
    filling = [(0, 0, 256 * n, 32, data(32)) for n in range(WORDS // 32)]
    reads = [(900 + at, *rest) for at, *rest in sorted(reads)]
    writes = filling + sorted((900 + at, *rest) for at, *rest in writes)
    trace = play(
        simulator,
        cache_dir,
        tmp_path,
        model,
        reads=reads,
        writes=writes,
        cycles=4000,
        gaps=gaps,
        seed=seed,
    )
    reference = MemoryReference(model, WORD_BYTES, WORDS)
    for cycle, row in enumerate(trace):
        for name, value in reference.step(row).items():
            assert row[name] == value, f"cycle {cycle}: {name} is {row[name]}, not {value}"
    assert len(beats_of(trace, "r")) > 200
    assert len(beats_of(trace, "w")) > 200
