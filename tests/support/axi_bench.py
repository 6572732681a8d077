"""Runs inside the simulator: the bare accelerator between cocotbext-axi's memory and bus master.

Input: ``bench.json`` (register writes, registers to read, seed, stalls) and ``memory.bin`` in the
working folder. Output: ``after.bin`` and ``registers.json``.
"""

import itertools
import json
import random
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam


def random_pauses(seed: int, odds: float):
    """Endless stalls: True in `odds` of the cycles."""
    generator = random.Random(seed)
    return (generator.random() < odds for _ in itertools.count())


@cocotb.test()
async def run_program(dut) -> None:
    """Load memory, program the registers, start, wait for the interrupt."""
    bench = json.loads(Path("bench.json").read_text())
    memory = Path("memory.bin").read_bytes()
    cocotb.start_soon(Clock(dut.ap_clk, 10, "ns").start())
    dut.ap_rst_n.value = 0
    ram = AxiRam(
        AxiBus.from_prefix(dut, "m_axi_gmem"),
        dut.ap_clk,
        dut.ap_rst_n,
        reset_active_level=False,
        size=bench["size_bytes"],
    )
    control = AxiLiteMaster(
        AxiLiteBus.from_prefix(dut, "s_axi_control"),
        dut.ap_clk,
        dut.ap_rst_n,
        reset_active_level=False,
    )
    channels = (
        ram.write_if.aw_channel,
        ram.write_if.w_channel,
        ram.write_if.b_channel,
        ram.read_if.ar_channel,
        ram.read_if.r_channel,
        control.write_if.aw_channel,
        control.write_if.w_channel,
        control.write_if.b_channel,
        control.read_if.ar_channel,
        control.read_if.r_channel,
    )
    for number, channel in enumerate(channels):
        if bench["odds"]:
            channel.set_pause_generator(random_pauses(bench["seed"] + number, bench["odds"]))
    for _ in range(10):
        await RisingEdge(dut.ap_clk)
    dut.ap_rst_n.value = 1
    await RisingEdge(dut.ap_clk)
    ram.write(0, memory)
    for address, value in bench["writes"]:
        await control.write_dword(address, value)
    await with_timeout(RisingEdge(dut.interrupt), bench["limit_cycles"] * 10, "ns")
    registers = [await control.read_dword(address) for address in bench["reads"]]
    Path("registers.json").write_text(json.dumps(registers))
    Path("after.bin").write_bytes(ram.read(0, len(memory)))
