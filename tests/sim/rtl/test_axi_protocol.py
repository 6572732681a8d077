"""The bare accelerator between cocotbext-axi's memory and bus master, with pauses everywhere."""

import json
from pathlib import Path

import pytest

from bench.correctness.rtl_launches import CACHE, expected_memories, placed
from daedal.hw.emit import TOP_MODULE, emit_verilog
from daedal.isa.random_programs import random_program
from daedal.isa.registers import register
from daedal.isa.variant import load_variant
from daedal.sim.rtl.build import build_cocotb
from daedal.sim.rtl.launch import launch_job
from daedal.sim.rtl.run import run_module

pytestmark = [pytest.mark.rtl, pytest.mark.slow]


@pytest.mark.parametrize("odds", [0.0, 0.3, 0.8])
def test_a_program_runs_between_independent_bus_models(odds: float, tmp_path: Path) -> None:
    variant = load_variant("tiny")
    launch = placed(random_program(variant, 7, length=20), with_marks=False)
    job = launch_job(launch)
    memory = bytearray(launch.size_bytes)
    for address, data in job.image:
        memory[address : address + len(data)] = data
    status = [register(name).offset for name in ("error", "control", "isr")]
    bench = {
        "size_bytes": -(-len(memory) // 4096) * 4096,
        "odds": odds,
        "seed": 11,
        "writes": [*job.writes, job.start],
        "reads": status,
        "limit_cycles": 200_000,
    }
    (tmp_path / "bench.json").write_text(json.dumps(bench))
    (tmp_path / "memory.bin").write_bytes(bytes(memory))
    text = emit_verilog(variant, assertions=True)
    built = build_cocotb([text], top=TOP_MODULE, parameters={}, cache_dir=CACHE)
    run_module(built, "tests.support.axi_bench", tmp_path, limit_seconds=300)
    error, control, isr = json.loads((tmp_path / "registers.json").read_text())
    assert error == 0
    assert control == 0b1110  # done, idle, ready
    assert isr == 1
    after = (tmp_path / "after.bin").read_bytes()
    assert [after[: len(launch.memory)]] == expected_memories([launch])
