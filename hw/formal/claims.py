"""`Claims`: a block with free inputs, and what is claimed about it, as one-bit outputs."""

from typing import Any

from amaranth.hdl import ClockDomain, Elaboratable, Module, Signal

__all__ = ["Claims"]


class Claims(Elaboratable):
    """Base of all proofs: a subclass states its claims in `state`.

    The circuit is never reset: it starts in its initial state, and everything from `free` takes
    any value in any cycle.

    Attributes
    ----------
    inputs : free signals.
    always : name -> signal that must be 1 in every cycle.
    assumed : name -> signal that the surroundings keep at 1.
    reachable : name -> signal that some run sets; it shows that a claim is not true for want of
        a case.
    """

    def __init__(self) -> None:
        self.clock = ClockDomain("sync", reset_less=True)
        self.inputs: list[Signal] = []
        self.always: dict[str, Signal] = {}
        self.assumed: dict[str, Signal] = {}
        self.reachable: dict[str, Signal] = {}

    def state(self, m: Module) -> None:
        """Add the block, its surroundings and the claims to `m`."""
        raise NotImplementedError

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.domains.sync = self.clock
        self.state(m)
        return m

    def free(self, shape: Any, name: str) -> Signal:
        """A signal that nobody drives."""
        signal = Signal(shape, name=name)
        self.inputs.append(signal)
        return signal

    def require(self, m: Module, name: str, condition: Any) -> None:
        """`condition` must hold in every cycle."""
        self._keep(m, self.always, "always", name, condition)

    def assume(self, m: Module, name: str, condition: Any) -> None:
        """The surroundings see to it that `condition` holds."""
        self._keep(m, self.assumed, "assumed", name, condition)

    def reach(self, m: Module, name: str, condition: Any) -> None:
        """Some run must make `condition` true."""
        self._keep(m, self.reachable, "reachable", name, condition)

    def _keep(
        self, m: Module, kind: dict[str, Signal], prefix: str, name: str, condition: Any
    ) -> None:
        signal = Signal(name=f"{prefix}_{name}")
        m.d.comb += signal.eq(condition)
        kind[name] = signal
