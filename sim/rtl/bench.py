"""Runs inside the simulator: executes a job list through the harness's command registers.

Input: ``jobs.json`` in the simulator's working folder, written by `run.py`: a list of jobs, each a
list of steps. Output: ``results.jsonl``, one line per event, flushed at once. Python wakes once
per step and, while a program runs, once per `pause_cycles` to report progress.
"""

import json
import time
from pathlib import Path
from typing import Any, TextIO

import cocotb
from cocotb.triggers import ReadOnly, Timer, ValueChange

from daedal.sim.rtl.commands import (
    OP_BREAK,
    OP_DUMP,
    OP_FILL,
    OP_LOAD,
    OP_READ,
    OP_START,
    OP_WAIT,
    OP_WRITE,
    STATUS_RUNNING,
    STATUS_TIMEOUT,
    complaint,
)
from daedal.sim.rtl.intervention import RESET_CYCLES
from daedal.sim.rtl.orphan import end_with_parent

__all__ = ["run_jobs_file"]


@cocotb.test()
async def run_jobs_file(dut: Any) -> None:
    """Execute every job of ``jobs.json``."""
    end_with_parent()
    jobs = json.loads(Path("jobs.json").read_text())
    with Path("results.jsonl").open("w") as sink:
        harness = _Harness(dut, sink)
        await Timer(1, "ns")  # the simulator's own initial values come first
        for index, job in enumerate(jobs):
            await harness.job(index, job)


class _Harness:
    """The host's side of the protocol at the top of `hdl/harness.v`."""

    def __init__(self, dut: Any, sink: TextIO) -> None:
        self.dut = dut
        self.sink = sink
        self.go = 0

    def emit(self, **event: Any) -> None:
        self.sink.write(json.dumps(event) + "\n")
        self.sink.flush()

    async def command(self, op: int, **operands: int) -> int:
        """Issue one command, return its status."""
        for name, value in operands.items():
            getattr(self.dut, name).value = value
        self.go ^= 1
        self.dut.op.value = op
        self.dut.go.value = self.go
        await ValueChange(self.dut.done)
        await ReadOnly()
        status = int(self.dut.status.value)
        result = self.dut.result.value
        await Timer(1, "ns")  # leave the read-only phase, still in the same clock cycle
        wrong = complaint(op, operands.get("op_address", 0), status)
        if wrong is not None:
            raise RuntimeError(wrong)
        if op != OP_READ:
            return status
        if not result.is_resolvable:  # Icarus only: Verilator knows no undefined bits
            where = operands["op_address"]
            raise RuntimeError(f"register {where:#x} holds undefined bits: {result}")
        return int(result)

    async def job(self, index: int, job: dict[str, Any]) -> None:
        for name, value in job["settings"].items():
            getattr(self.dut, name).value = value
        if job["reset"]:
            await self.reset(RESET_CYCLES, memory=job["reset_memory"])
        for address, count in job["fills"]:
            await self.command(OP_FILL, op_address=address, op_count=count, op_data=0)
        for address, count in job["loads"]:
            await self.command(OP_LOAD, op_address=address, op_count=count)
        for address, value in job["writes"]:
            await self.command(OP_WRITE, op_address=address, op_data=value)

        event = await self.run(index, job)
        event["registers"] = [await self.command(OP_READ, op_address=at) for at in job["reads"]]
        for address, count in job["dumps"]:
            await self.command(OP_DUMP, op_address=address, op_count=count)
        self.emit(kind="result", job=index, **event)

    async def run(self, index: int, job: dict[str, Any]) -> dict[str, Any]:
        """Start the program and wait for its end; returns results that need no further commands."""
        began = time.perf_counter()
        address, value = job["start"]
        await self.command(OP_START, op_address=address, op_data=value)
        seen = []  # bursts open at each intervention and at the end
        violation = 0
        was_reset = False
        waiting = list(job["interventions"])
        pause = job["pause_cycles"]
        while not was_reset:
            until = min([pause, *(item["at_cycle"] for item in waiting[:1])])
            status = await self.command(OP_WAIT, op_limit=job["limit"], op_pause=until)
            cycles = int(self.dut.run_cycles.value)
            violation = violation or int(self.dut.violation.value)  # a reset clears it
            if status != STATUS_RUNNING:
                seen.append(self.open_bursts())
                break
            if waiting and cycles >= waiting[0]["at_cycle"]:
                seen.append(self.open_bursts())
                was_reset = await self.intervene(waiting.pop(0))
            if cycles >= pause:
                self.emit(kind="progress", job=index, cycles=cycles)
                pause += job["pause_cycles"]
        return {
            "cycles": job["limit"] if status == STATUS_TIMEOUT else cycles,
            "timed_out": status == STATUS_TIMEOUT,
            "violation": violation,
            "seconds": time.perf_counter() - began,
            "open_bursts": seen,
            "was_reset": was_reset,
        }

    async def intervene(self, item: dict[str, Any]) -> bool:
        """Perform an intervention; returns whether it was a reset."""
        if item["write"] is not None:
            address, value = item["write"]
            await self.command(OP_WRITE, op_address=address, op_data=value)
            return False
        await self.reset(item["reset_cycles"], memory=item["reset_memory"])
        return True

    async def reset(self, cycles: int, *, memory: bool) -> None:
        """Reset the machine; without `memory`, the memory model continues its open bursts."""
        await self.command(OP_BREAK, op_count=cycles, op_data=int(not memory))

    def open_bursts(self) -> list[int]:
        """The numbers of `OpenBursts` when the last WAIT ended."""
        names = ("open_reads", "open_unwritten", "open_unanswered")
        return [int(getattr(self.dut, name).value) for name in names]
