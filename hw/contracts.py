"""Contracts between blocks, as assertions for simulation and proofs.

Input: conditions that hold in every cycle. Output: assertions if the elaboration asks for them,
otherwise nothing: shipped Verilog is the same, byte for byte, with and without them in the source.
Relations between constants of the design do not depend on a cycle: `require_at_elaboration` checks
them when the design is built.
"""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Signal, Value, ValueLike

from daedal.hw.family import GatheredContracts, Platform, Portable

__all__ = [
    "ElaborationError",
    "at_most_one",
    "before",
    "checks_contracts",
    "contract",
    "require_at_elaboration",
    "stays_until_ready",
]


class ElaborationError(AssertionError):
    """Constants of the design are inconsistent; nothing is built."""


def require_at_elaboration(holds: bool, rule: str) -> None:
    """Check a relation between latencies or depths; elaboration fails with `rule` if it is false.

    `rule` is a sentence that states the relation. Unlike ``assert``, it is also checked in
    optimized Python. Raises ElaborationError.
    """
    if not holds:
        raise ElaborationError(rule)


def checks_contracts(platform: Platform) -> bool:
    """Whether an elaboration includes contracts.

    Amaranth's own simulator does (it has no platform), and so do ``Portable.ASSERTED`` and proofs.
    Logic that only serves a contract must be built only if this is true.
    """
    asked = platform is None or platform is Portable.ASSERTED
    return asked or isinstance(platform, GatheredContracts)


def contract(
    m: Module, platform: Platform, condition: ValueLike, rule: str, *, domain: str = "sync"
) -> None:
    """Assert `condition` at every clock edge; a simulation fails with `rule` if it is false.

    `rule` is a sentence that states the requirement; simulators add the block that violates it.
    """
    if isinstance(platform, GatheredContracts):
        holds = Signal(name="contract")
        m.d.comb += holds.eq(Value.cast(condition).bool())
        platform.found.append((rule, holds))
    elif checks_contracts(platform):
        m.d[domain] += Assert(condition, rule)


def before(m: Module, value: ValueLike, *, domain: str = "sync") -> Value:
    """`value` in the previous cycle, 0 after reset; for contracts only."""
    given = Value.cast(value)
    held = Signal(len(given), name="before")
    m.d[domain] += held.eq(given)
    return held


def at_most_one(bits: Value) -> Value:
    """Whether at most one bit is set."""
    return (bits & (bits - 1)[: len(bits)]) == 0


def stays_until_ready(
    m: Module, platform: Platform, stream: Any, what: str, *, domain: str = "sync"
) -> None:
    """Rule 1 of `interfaces`: `stream` keeps valid and payload until ready."""
    if not checks_contracts(platform):
        return
    payload = Value.cast(stream.payload)
    waits = before(m, Cat(stream.valid & ~stream.ready), domain=domain)
    offered = before(m, payload, domain=domain)
    contract(
        m,
        platform,
        ~waits | (stream.valid & (payload == offered)),
        f"{what} must keep valid and payload until ready",
        domain=domain,
    )
