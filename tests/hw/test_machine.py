"""The machine's wiring: registers show what the blocks report, and the blocks get the settings."""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Fragment, Module, Value
from amaranth.lib import wiring
from amaranth.sim import Simulator

from daedal.hw import machine
from daedal.hw.family import Portable
from daedal.hw.machine import Machine, machine_parts
from daedal.isa.table import Unit
from daedal.isa.variant import Variant, load_variant

TINY = load_variant("tiny")

STATUS = {
    "supervisor": ("running", "finished", "error_code", "error_unit", "error_index"),
    "counters": ("cycles", "beats_read", "beats_written", *(f"counts.{unit}" for unit in Unit)),
}
"""Ports of the control registers, by the block that drives them under the same names."""

SETTINGS = {
    "supervisor": ("start", "abort", "watchdog", "drain_limit"),
    **dict.fromkeys(("load", "store"), ("base_address", "region_words")),
}
"""Ports of blocks that the control registers drive under the same names."""


class Hollow(wiring.Component):
    """The ports of a block. What it would drive, the test does."""

    def elaborate(self, platform: Any) -> Module:
        return Module()


def hollow_machine(patch: pytest.MonkeyPatch) -> tuple[Machine, dict[str, Any]]:
    """A machine of wires alone, and its hollow blocks by name."""
    parts = {name: Hollow(part.signature) for name, part in machine_parts(TINY).items()}

    def made(variant: Variant) -> dict[str, Any]:
        assert variant is TINY
        return parts

    patch.setattr(machine, "machine_parts", made)
    return Machine(variant=TINY), parts


def port(block: Any, path: str) -> Value:
    """A port by its name; a dot leads into an array."""
    name, _, number = path.partition(".")
    found = getattr(block, name)
    return Value.cast(found[int(number)] if number else found)


def test_registers_and_blocks_are_connected(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    top, parts = hollow_machine(monkeypatch)
    control = parts["control"]
    wires = {
        f"{block}.{name}": (port(parts[block], name), port(control, name))
        for block, names in STATUS.items()
        for name in names
    } | {
        f"control.{name} to {block}": (port(control, name), port(parts[block], name))
        for block, names in SETTINGS.items()
        for name in names
    }

    drivers = {id(driver): driver for driver, _ in wires.values()}  # some reach several blocks

    async def drive(ctx: Any) -> None:
        for is_random in (False, True):
            values = {}
            for key, driver in drivers.items():
                most = (1 << len(driver)) - 1
                values[key] = int.from_bytes(rng.bytes(64), "little") & most if is_random else most
                ctx.set(driver, values[key])
            for name, (driver, reached) in wires.items():
                assert ctx.get(reached) == values[id(driver)], name

    simulator = Simulator(Fragment.get(top, Portable.PLAIN))
    simulator.add_testbench(drive)
    simulator.run()
