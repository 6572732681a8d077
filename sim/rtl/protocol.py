"""Runs inside the simulator: the bare accelerator between cocotbext-axi's memory and host.

Reads and writes the same files as `bench.py`, so one `Job` runs on either. It uses nothing of
`hdl/`: this is the independent check of the bus protocol. As Python drives the clock, it is some
hundred times slower.

The memory model's stall odds become random pauses of the five channels; latencies and faults have
no equivalent here and are ignored. Cycles are counted the same way, but their number differs.
"""

import itertools
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, First, RisingEdge, Timer
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

from daedal.sim.rtl.image import swap_words
from daedal.sim.rtl.orphan import end_with_parent

__all__ = ["run_jobs_file"]

PERIOD_NS = 10
RESET_CYCLES = 16


@cocotb.test()
async def run_jobs_file(dut: Any) -> None:
    """Execute every job of ``jobs.json``."""
    end_with_parent()
    jobs = json.loads(Path("jobs.json").read_text())
    word_bytes = len(dut.m_axi_gmem_wdata) // 8
    dut.ap_rst_n.value = 0
    Clock(dut.ap_clk, PERIOD_NS, unit="ns").start()
    size = max(
        (first + count) * word_bytes
        for job in jobs
        for first, count in [*job["fills"], *job["loads"], *job["dumps"], (0, 1)]
    )
    memory = AxiRam(
        AxiBus.from_prefix(dut, "m_axi_gmem"),
        dut.ap_clk,
        dut.ap_rst_n,
        reset_active_level=False,
        size=size,
    )
    host = AxiLiteMaster(
        AxiLiteBus.from_prefix(dut, "s_axi_control"),
        dut.ap_clk,
        dut.ap_rst_n,
        reset_active_level=False,
    )
    with (
        Path("image.bin").open("rb") as image,
        Path("dump.bin").open("wb") as dump,
        Path("results.jsonl").open("w") as sink,
    ):
        for index, job in enumerate(jobs):
            if job["reset"] or index == 0:
                dut.ap_rst_n.value = 0
                await ClockCycles(dut.ap_clk, RESET_CYCLES)
                dut.ap_rst_n.value = 1
                await ClockCycles(dut.ap_clk, 2)
            for first, count in job["fills"]:
                memory.write(first * word_bytes, bytes(count * word_bytes))
            for first, count in job["loads"]:
                data = image.read(count * word_bytes)
                memory.write(first * word_bytes, swap_words(data, word_bytes))
            _pause(memory, job["settings"]["cfg_stall"], job["settings"]["cfg_seed"])
            result = await _launch(dut, host, job)
            for first, count in job["dumps"]:
                dump.write(memory.read(first * word_bytes, count * word_bytes))
            event = {"kind": "result", "job": index, "violation": 0, **result}
            event |= {"open_bursts": [], "was_reset": False}
            sink.write(json.dumps(event) + "\n")
            sink.flush()


async def _launch(dut: Any, host: AxiLiteMaster, job: dict[str, Any]) -> dict[str, Any]:
    for address, value in job["writes"]:
        await host.write_dword(address, value)
    began = time.perf_counter()
    # Armed before the start write: a short program may interrupt before that write's response.
    fired = cocotb.start_soon(_rise(dut.interrupt))
    await host.write_dword(*job["start"])
    start_ns = get_sim_time("ns")
    await First(fired.complete, Timer(job["limit"] * PERIOD_NS, unit="ns"))
    cycles = int(get_sim_time("ns") - start_ns) // PERIOD_NS
    timed_out = not fired.done()
    if timed_out:
        fired.cancel()
    seconds = time.perf_counter() - began
    registers = [await host.read_dword(address) for address in job["reads"]]
    return {
        "cycles": cycles,
        "timed_out": timed_out,
        "registers": registers,
        "seconds": seconds,
    }


async def _rise(signal: Any) -> None:
    await RisingEdge(signal)


def _pause(memory: AxiRam, stall: int, seed: int) -> None:
    """Make every channel of the memory pause at random with the odds of the job's memory model."""
    write, read = memory.write_if, memory.read_if
    for place, channel in enumerate(
        (
            read.ar_channel,
            read.r_channel,
            write.aw_channel,
            write.w_channel,
            write.b_channel,
        )
    ):
        odds = stall >> 9 * place & 0x1FF
        pauses = _pauses(odds, seed + place) if odds else itertools.repeat(False)
        channel.set_pause_generator(pauses)


def _pauses(odds: int, seed: int) -> Iterator[bool]:
    generator = random.Random(seed)
    while True:
        yield generator.randrange(256) < odds
