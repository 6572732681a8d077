"""What blocks promise each other, as assertions of simulations.

Input: conditions that hold in every cycle. Output: assertions where the elaboration wants them, and
nothing at all elsewhere: shipped Verilog is the same, byte for byte, with and without them in the
source. Relations between constants of the design hold in no cycle but always:
`require_at_elaboration` checks them when the design is built.
"""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Signal, Value, ValueLike

from daedal.hw.family import Platform, Portable

__all__ = [
    "ElaborationError",
    "GatheredContracts",
    "at_most_one",
    "before",
    "checks_contracts",
    "contract",
    "require_at_elaboration",
    "stays_until_ready",
]


class ElaborationError(AssertionError):
    """Constants of the design do not fit together; nothing is built of them."""


def require_at_elaboration(holds: bool, rule: str) -> None:
    """Latencies and depths keep a relation, or elaboration ends with `rule`.

    `rule` is a sentence that names what must fit together. Unlike ``assert`` it is checked in
    optimized Python, too. Raises ElaborationError.
    """
    if not holds:
        raise ElaborationError(rule)


class GatheredContracts:
    """A platform for proofs: contracts become signals, in `found` by their rules, that stay 1."""

    def __init__(self) -> None:
        self.found: list[tuple[str, Signal]] = []


def checks_contracts(platform: Platform) -> bool:
    """Whether an elaboration wants contracts.

    Amaranth's own simulator does (it has no platform), and so do ``Portable.ASSERTED`` and proofs.
    Whatever is only there for a contract stands behind this question.
    """
    asked = platform is None or platform is Portable.ASSERTED
    return asked or isinstance(platform, GatheredContracts)


def contract(
    m: Module, platform: Platform, condition: ValueLike, rule: str, *, domain: str = "sync"
) -> None:
    """`condition` holds at every clock edge, or the simulation ends with `rule`.

    `rule` is a sentence that says what must be; simulators add in which block it is not.
    """
    if isinstance(platform, GatheredContracts):
        holds = Signal(name="contract")
        m.d.comb += holds.eq(Value.cast(condition).bool())
        platform.found.append((rule, holds))
    elif checks_contracts(platform):
        m.d[domain] += Assert(condition, rule)


def before(m: Module, value: ValueLike, *, domain: str = "sync") -> Value:
    """`value` of the cycle before, 0 after reset; for contracts only."""
    given = Value.cast(value)
    held = Signal(len(given), name="before")
    m.d[domain] += held.eq(given)
    return held


def at_most_one(bits: Value) -> Value:
    """Whether no more than one bit is set."""
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
