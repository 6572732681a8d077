"""Runs inside the simulator: a scripted AXI master on `daedal_dram`, recording every cycle.

Reads ``plan.json`` (see `Plan` in test_dram.py), writes ``trace.json``: a list of signal values per
cycle, taken while they are stable.
"""

import json
import random
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

FIELDS = {
    "ar": ("id", "addr", "len", "valid", "ready"),
    "r": ("id", "data", "resp", "last", "valid", "ready"),
    "aw": ("id", "addr", "len", "valid", "ready"),
    "w": ("data", "strb", "valid", "ready"),
    "b": ("id", "resp", "valid", "ready"),
}
SIGNALS = [f"s_{channel}{name}" for channel, names in FIELDS.items() for name in names]


@cocotb.test()
async def play(dut: Any) -> None:
    plan = json.loads(Path("plan.json").read_text())
    rng = random.Random(plan["seed"])
    for name, value in plan["settings"].items():
        getattr(dut, name).value = value
    for name in SIGNALS:
        if name[2:] in ("arvalid", "rready", "awvalid", "wvalid", "bready", "wstrb", "wdata"):
            getattr(dut, name).value = 0
    dut.rst.value = 1
    Clock(dut.clk, 10, unit="ns").start()
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0

    reads, writes = list(plan["reads"]), list(plan["writes"])
    beats = [
        (word, strobe, begin) for begin, _, _, length, *rest in writes for word, strobe in rest[0]
    ]
    trace: list[dict[str, int]] = []
    last: dict[str, int] = dict.fromkeys(SIGNALS, 0)

    def lucky() -> bool:
        return rng.randrange(256) >= plan["gaps"]

    for cycle in range(plan["cycles"]):
        # A channel may change only if nothing is on offer, or what was on offer was taken.
        if not last["s_arvalid"] or last["s_arready"]:
            send = bool(reads) and reads[0][0] <= cycle and lucky()
            dut.s_arvalid.value = int(send)
            if send:
                _, dut.s_arid.value, dut.s_araddr.value, length = reads.pop(0)
                dut.s_arlen.value = length - 1
        if not last["s_awvalid"] or last["s_awready"]:
            send = bool(writes) and writes[0][0] <= cycle and lucky()
            dut.s_awvalid.value = int(send)
            if send:
                _, dut.s_awid.value, dut.s_awaddr.value, length, _ = writes.pop(0)
                dut.s_awlen.value = length - 1
        if not last["s_wvalid"] or last["s_wready"]:
            send = bool(beats) and beats[0][2] <= cycle and lucky()
            dut.s_wvalid.value = int(send)
            if send:
                dut.s_wdata.value, dut.s_wstrb.value, _ = beats.pop(0)
        dut.s_rready.value = int(lucky())
        dut.s_bready.value = int(lucky())
        await FallingEdge(dut.clk)
        last = {}
        for name in SIGNALS:
            value = getattr(dut, name).value
            last[name] = int(value) if value.is_resolvable else -1
        trace.append(last)
        await RisingEdge(dut.clk)
    Path("trace.json").write_text(json.dumps(trace))
