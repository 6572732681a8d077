"""Simulators that are made once for a design: elaborating it takes longer than most tests run.

Amaranth can reset a simulator, but keeps its testbenches, and what they wait for; these are
removed here, so that the next test finds the simulator as it was made.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amaranth.sim import Simulator

__all__ = ["Shared", "forget_shared_designs", "shared_design"]


@dataclass(frozen=True)
class Shared:
    """A design, and its simulator with a clock.

    Attributes
    ----------
    num_wakers : of each signal and memory, how many parts of the design it wakes.
    """

    design: Any
    simulator: Simulator
    num_wakers: tuple[int, ...]

    def rewound(self) -> tuple[Any, Simulator]:
        """Both, at time 0 and without testbenches."""
        engine = self.simulator._engine
        engine._testbenches.clear()
        engine._active_triggers.clear()
        for number, slot in enumerate(engine._state.slots):
            del slot.wakers[self.num_wakers[number] if number < len(self.num_wakers) else 0 :]
        self.simulator.reset()
        return self.design, self.simulator


@functools.lru_cache(maxsize=24)
def _made(make: Callable[..., Any], arguments: tuple[tuple[str, Any], ...]) -> Shared:
    design = make(**dict(arguments))
    simulator = Simulator(design)
    simulator.add_clock(1e-6)
    slots = simulator._engine._state.slots
    return Shared(design, simulator, tuple(len(slot.wakers) for slot in slots))


def shared_design(make: Callable[..., Any], **arguments: Any) -> tuple[Any, Simulator]:
    """`make(**arguments)`, which other tests may have used, and its simulator."""
    return _made(make, tuple(arguments.items())).rewound()


def forget_shared_designs() -> None:
    """Make the next ones again: for tests that change what designs are made of."""
    _made.cache_clear()
