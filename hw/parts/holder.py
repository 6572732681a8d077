"""Whether a unit holds an instruction, kept for the gate before it and for its own registers."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import contract
from daedal.hw.family import Platform

__all__ = ["Holder"]


class Holder(wiring.Component):
    """One place for an instruction that leaves in parts.

    `ready` and `holds` are registers, and opposites. A gate decides late whether it passes an
    instruction; what it looks at is not the one that enables hundreds of registers.

    Members
    -------
    ready : ``Out(1)``
        There is room.
    valid : ``In(1)``
        An instruction comes, if there is.
    holds : ``Out(1)``
        There is an instruction.
    waits : ``In(1)``
        Some of it stays after this cycle; 0 without one.
    """

    def __init__(self) -> None:
        super().__init__({"ready": Out(1, init=1), "valid": In(1), "holds": Out(1), "waits": In(1)})

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        stays = (self.ready & self.valid) | self.waits
        m.d.sync += [self.holds.eq(stays), self.ready.eq(~stays)]
        contract(m, platform, self.holds != self.ready, "there must be room where nothing is held")
        contract(m, platform, ~self.waits | self.holds, "without an instruction none must stay")
        return m
