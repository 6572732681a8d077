"""Pins of the AXI4 master: names, directions, constants."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import Flow
from amaranth.sim import Simulator

from daedal.hw.bus.axi import (
    address_channel,
    axi4_lite_pins,
    axi4_pins,
    connect_axi4_pins,
    read_channel,
    response_channel,
    write_channel,
)
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")
PREFIX = "m_axi_gmem_"
CHANNELS = {
    "aw": address_channel(TINY),
    "w": write_channel(TINY),
    "b": response_channel(),
    "ar": address_channel(TINY),
    "r": read_channel(TINY),
}
ADDRESS = {"id", "addr", "len", "size", "burst", "lock", "cache", "prot", "qos", "valid", "ready"}


class Pins(wiring.Component):
    """Nothing but the pins and five channels."""

    def __init__(self) -> None:
        super().__init__(axi4_pins(TINY, PREFIX))
        self.quiet = Signal()
        self.channels = {
            name: stream.Signature(layout).create() for name, layout in CHANNELS.items()
        }

    def elaborate(self, platform) -> Module:
        m = Module()
        connect_axi4_pins(m, self, PREFIX, TINY, self.quiet, **self.channels)
        return m


def test_pins_have_the_names_and_directions_of_the_standard() -> None:
    pins = axi4_pins(TINY, PREFIX)
    wanted = {f"{PREFIX}{channel}{name}" for channel in ("aw", "ar") for name in ADDRESS}
    wanted |= {f"{PREFIX}w{name}" for name in ("data", "strb", "last", "valid", "ready")}
    wanted |= {f"{PREFIX}b{name}" for name in ("id", "resp", "valid", "ready")}
    wanted |= {f"{PREFIX}r{name}" for name in ("id", "data", "resp", "last", "valid", "ready")}
    assert set(pins) == wanted
    inputs = {name.removeprefix(PREFIX) for name, pin in pins.items() if pin.flow is Flow.In}
    assert inputs == {
        "awready", "wready", "bid", "bresp", "bvalid",
        "arready", "rid", "rdata", "rresp", "rlast", "rvalid",
    }  # fmt: skip


def test_a_lite_slave_has_the_five_channels() -> None:
    pins = axi4_lite_pins(12, "s_axi_control_")
    assert pins["s_axi_control_awaddr"].shape == 12
    assert pins["s_axi_control_rdata"].flow is Flow.Out
    assert pins["s_axi_control_wvalid"].flow is Flow.In
    assert len(pins) == 19


@pytest.mark.parametrize("channel", CHANNELS)
def test_pins_carry_the_channels(channel: str) -> None:
    dut = Pins()
    ours = dut.channels[channel]

    def pin(name: str):
        return getattr(dut, f"{PREFIX}{channel}{name}")

    values = {name: 1 + (n & 1) for n, (name, _) in enumerate(CHANNELS[channel])}
    values = {name: 1 if name in ("id", "last") else value for name, value in values.items()}

    async def bench(ctx) -> None:
        if dut.signature.members[f"{PREFIX}{channel}valid"].flow is Flow.Out:
            ctx.set(ours.payload, values)
            ctx.set(ours.valid, 1)
            ctx.set(pin("ready"), 1)
            await ctx.delay(1e-9)
            assert {name: ctx.get(pin(name)) for name in values} == values
            assert ctx.get(pin("valid")) and ctx.get(ours.ready)
        else:
            for name, value in values.items():
                ctx.set(pin(name), value)
            ctx.set(pin("valid"), 1)
            ctx.set(ours.ready, 1)
            await ctx.delay(1e-9)
            assert {name: ctx.get(ours.payload)[name] for name in values} == values
            assert ctx.get(ours.valid) and ctx.get(pin("ready"))
        if channel in ("aw", "ar"):
            assert ctx.get(pin("size")) == 3, "8 bytes per beat"
            assert ctx.get(pin("burst")) == 1, "INCR"

    simulator = Simulator(dut)
    simulator.add_testbench(bench)
    simulator.run()
