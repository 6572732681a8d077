"""`Claims`: a block with free inputs, and the claims about it as one-bit outputs."""

import re
from typing import Any

from amaranth.hdl import ClockDomain, Elaboratable, Fragment, Module, Signal

from daedal.hw.family import GatheredContracts, Platform

__all__ = ["Claims", "Inside"]


class Inside:
    """The named signals that a block and its submodules drive, without changes to the block.

    Claims that hold in every cycle need not be inductive; additional claims on registers make them
    so.
    """

    def __init__(self, fragment: Fragment) -> None:
        self._fragment = fragment

    def __getitem__(self, path: str) -> Signal:
        """The signal of that name; ``block.name`` is one of a block inside."""
        *blocks, name = path.split(".")
        fragment = self._fragment
        for block in blocks:
            (fragment,) = (part for part, called, _ in fragment.subfragments if called == block)
        driven = [
            signal
            for statements in fragment.statements.values()
            for signal in statements._lhs_signals()
            if signal.name == name
        ]
        (found,) = driven
        return found


class Claims(Elaboratable):
    """Base of all proofs: a subclass states its claims in `state`.

    The circuit is never reset: it starts in its initial state, and everything from `free` takes
    any value in any cycle.

    Attributes
    ----------
    inputs : free signals.
    always : name -> signal that must be 1 in every cycle.
    assumed : name -> signal that the environment keeps at 1.
    reachable : name -> signal that some run sets; it shows that a claim is not vacuously true.
    """

    def __init__(self) -> None:
        self.clock = ClockDomain("sync", reset_less=True)
        self.inputs: list[Signal] = []
        self.always: dict[str, Signal] = {}
        self.assumed: dict[str, Signal] = {}
        self.reachable: dict[str, Signal] = {}
        self._gathered = GatheredContracts()
        self._runs: Signal | None = None

    def state(self, m: Module) -> None:
        """Add the block, its environment and the claims to `m`."""
        raise NotImplementedError

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        m.domains.sync = self.clock
        self.state(m)
        for number, (rule, holds) in enumerate(self._gathered.found):
            self.require(m, f"{re.sub(r'[^a-z0-9]+', '_', rule.lower())}_{number}", holds)
        return m

    def place(self, m: Module, name: str, block: Any) -> Inside:
        """Add a block to make claims about; its own contracts become claims, too."""
        fragment = Fragment.get(block, self._gathered)
        m.submodules[name] = fragment
        return Inside(fragment)

    def free(self, shape: Any, name: str) -> Signal:
        """A free signal: an input with any value in any cycle."""
        signal = Signal(shape, name=name)
        self.inputs.append(signal)
        return signal

    def runs(self, m: Module) -> Signal:
        """0 in the first cycle, 1 in all others."""
        if self._runs is None:
            self._runs = Signal(name="runs")
            m.d.sync += self._runs.eq(1)
        return self._runs

    def constant(self, m: Module, shape: Any, name: str) -> Signal:
        """A signal with any value, the same in all cycles of a run."""
        chosen = self.free(shape, name)
        before = Signal.like(chosen, name=f"{name}_before")
        m.d.sync += before.eq(chosen)
        self.assume(m, f"one_{name}", ~self.runs(m) | (chosen == before))
        return chosen

    def require(self, m: Module, name: str, condition: Any) -> None:
        """`condition` must hold in every cycle."""
        self._keep(m, self.always, "always", name, condition)

    def assume(self, m: Module, name: str, condition: Any) -> None:
        """The environment keeps `condition` true."""
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
