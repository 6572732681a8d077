"""Sources and sinks for streams in Amaranth testbenches, with random gaps, and a capped bench."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from amaranth.hdl import Elaboratable
from amaranth.lib import data
from amaranth.sim import Simulator

__all__ = ["Bench", "plain", "sink", "source"]


def plain(value: Any) -> Any:
    """A payload as Python values: nested dicts for layouts, numbers otherwise."""
    if isinstance(value, data.Const):
        return {name: plain(value[name]) for name, _ in value.shape()}
    return value


def source(
    stream: Any, items: Iterable[Any], rng: np.random.Generator | None = None, gap: float = 0.0
) -> Callable:
    """Testbench that puts `items` into `stream`; before each it idles with odds `gap` per cycle."""

    async def bench(ctx: Any) -> None:
        for item in items:
            while rng is not None and rng.random() < gap:
                await ctx.tick()
            ctx.set(stream.payload, item)
            ctx.set(stream.valid, 1)
            ready = 0
            while not ready:
                _, _, ready = await ctx.tick().sample(stream.ready)
            ctx.set(stream.valid, 0)

    return bench


def sink(
    stream: Any,
    got: list[Any],
    rng: np.random.Generator | None = None,
    gap: float = 0.0,
    check_stable: bool = True,
) -> Callable:
    """Background testbench that takes all of `stream` into `got`, not ready with odds `gap`.

    It asserts rule 1 of `hw.interfaces`: valid and payload stay until ready.
    """

    async def bench(ctx: Any) -> None:
        waiting = None
        while True:
            ready = rng is None or rng.random() >= gap
            ctx.set(stream.ready, ready)
            _, _, valid, payload = await ctx.tick().sample(stream.valid, stream.payload)
            item = plain(payload)
            if check_stable and waiting is not None:
                assert valid, "valid fell before ready"
                assert item == waiting, "the payload changed before ready"
            waiting = item if valid and not ready else None
            if valid and ready:
                got.append(item)

    return bench


class Bench:
    """A design and its testbenches; `run` ends when every foreground testbench has ended.

    With `simulator` it is one of this design that others have used (`shared_designs`).

    Background testbenches run as long as there is a foreground. The bench fails when `cap_cycles`
    pass first.
    """

    def __init__(self, design: Elaboratable, simulator: Simulator | None = None):
        if simulator is None:
            simulator = Simulator(design)
            simulator.add_clock(1e-6)
        self._simulator = simulator
        self._foreground: list[Callable] = []
        self._left = 0
        self.cycles = 0

    def background(self, *benches: Callable) -> None:
        """Add testbenches that need not end."""
        for bench in benches:
            self._simulator.add_testbench(bench, background=True)

    def foreground(self, *benches: Callable) -> None:
        """Add testbenches that must all end."""
        self._foreground += benches

    def until(self, condition: Callable[[], bool]) -> None:
        """Run until `condition()` (of what the testbenches collected) holds."""

        async def bench(ctx: Any) -> None:
            while not condition():
                await ctx.tick()

        self._foreground.append(bench)

    def run(self, cap_cycles: int = 20_000) -> int:
        """Simulate; return the cycles it took."""
        self._left = len(self._foreground)

        def counted(bench: Callable) -> Callable:
            async def wrapped(ctx: Any) -> None:
                await bench(ctx)
                self._left -= 1

            return wrapped

        async def clock(ctx: Any) -> None:
            while self._left:
                await ctx.tick()
                self.cycles += 1
                assert self.cycles < cap_cycles, f"not done after {cap_cycles} cycles"

        for bench in self._foreground:
            self._simulator.add_testbench(counted(bench), background=True)
        self._simulator.add_testbench(clock)
        self._simulator.run()
        return self.cycles
