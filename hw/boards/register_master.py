"""An AXI4-Lite master for one access at a time."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.family import Platform
from daedal.isa.registers import CONTROL_ADDRESS_BITS

__all__ = ["RegisterMaster", "register_access", "register_bus"]


def register_access() -> wiring.Signature:
    """One access, seen from the requester: `valid` and its payload are held until `done`.

    In the cycle of `done`, `read_data` is the value read. `valid` may stay for the next access.
    """
    return wiring.Signature(
        {
            "valid": Out(1),
            "write": Out(1),
            "address": Out(CONTROL_ADDRESS_BITS),
            "write_data": Out(32),
            "done": In(1),
            "read_data": In(32),
        }
    )


def register_bus() -> wiring.Signature:
    """AXI4-Lite as the master sees it; ``awprot`` and ``arprot`` are constants at the slave."""
    return wiring.Signature(
        {
            "awaddr": Out(CONTROL_ADDRESS_BITS),
            "awvalid": Out(1),
            "awready": In(1),
            "wdata": Out(32),
            "wstrb": Out(4),
            "wvalid": Out(1),
            "wready": In(1),
            "bvalid": In(1),
            "bready": Out(1),
            "araddr": Out(CONTROL_ADDRESS_BITS),
            "arvalid": Out(1),
            "arready": In(1),
            "rdata": In(32),
            "rvalid": In(1),
            "rready": Out(1),
        }
    )


class RegisterMaster(wiring.Component):
    """Perform accesses of whole words; BRESP and RRESP are ignored.

    `hw.control.control` answers every access with OKAY.

    Members
    -------
    access : ``In(register_access())``
    bus : ``Out(register_bus())``, registered outputs.

    Source: IHI 0022, B1.1.
    """

    def __init__(self) -> None:
        super().__init__({"access": In(register_access()), "bus": Out(register_bus())})

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        access, bus = self.access, self.bus
        m.d.sync += access.done.eq(0)
        for channel in ("aw", "w", "ar"):
            valid, ready = getattr(bus, f"{channel}valid"), getattr(bus, f"{channel}ready")
            with m.If(valid & ready):
                m.d.sync += valid.eq(0)
        for channel in ("b", "r"):
            valid, ready = getattr(bus, f"{channel}valid"), getattr(bus, f"{channel}ready")
            with m.If(valid & ready):
                m.d.sync += [ready.eq(0), access.done.eq(1)]
        with m.If(bus.rvalid):
            m.d.sync += access.read_data.eq(bus.rdata)
        with m.FSM():
            with m.State("REST"):
                m.d.sync += [
                    bus.awaddr.eq(access.address),
                    bus.araddr.eq(access.address),
                    bus.wdata.eq(access.write_data),
                    bus.wstrb.eq(~0),
                ]
                with m.If(access.valid & ~access.done):
                    m.next = "BUSY"
                    with m.If(access.write):
                        m.d.sync += [bus.awvalid.eq(1), bus.wvalid.eq(1), bus.bready.eq(1)]
                    with m.Else():
                        m.d.sync += [bus.arvalid.eq(1), bus.rready.eq(1)]
            with m.State("BUSY"):
                with m.If(access.done):
                    m.next = "REST"
        return m
