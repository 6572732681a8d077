"""Flags for a unit's instruction register: one for the gate before it, one for the unit."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import contract
from daedal.hw.family import Platform

__all__ = ["Holder"]


class Holder(wiring.Component):
    """Control of a register for an instruction that is passed on in parts.

    `ready` and `holds` are registers, each the inverse of the other. The gate's decision is a long
    path, so it uses `ready`; `holds` enables hundreds of registers.

    Members
    -------
    ready : ``Out(1)``
        No instruction is held.
    valid : ``In(1)``
        An instruction arrives, if `ready`.
    holds : ``Out(1)``
        An instruction is held.
    waits : ``In(1)``
        Part of it remains after this cycle; 0 while none is held.
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
