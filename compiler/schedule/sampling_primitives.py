"""Primitives that choose at random, so that a tuner can choose otherwise.

What was chosen is recorded as the argument ``decision``: `Trace.decisions` lists the choices,
`Trace.with_decision` makes the trace with another one. Calls that were given a sampled value follow
it when the trace replays.
"""

from collections.abc import Sequence

from daedal.compiler.schedule.base import ScheduleBase
from daedal.compiler.schedule.edit import find_loop
from daedal.compiler.schedule.handles import LoopRef
from daedal.compiler.schedule.recording import primitive
from daedal.compiler.schedule.sampling import C, SampledInt, SampledStr, choose, choose_tile

__all__ = ["SamplingPrimitives"]


class SamplingPrimitives(ScheduleBase):
    """The part of `Schedule` that makes choices."""

    @primitive
    def sample_perfect_tile(
        self,
        loop: LoopRef,
        num_tiles: int,
        max_innermost: int | None = None,
        decision: Sequence[int] | None = None,
    ) -> list[SampledInt]:
        """Factors for `split` that divide the extent of a loop, each way with equal chance.

        The last one is at most `max_innermost`. A `decision` is taken as it is, if it is possible.

        >>> sch = row_sum()
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k in 8:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        >>> i, k = sch.get_loops(sch.get_block("s"))
        >>> k_0, k_1 = sch.split(k, sch.sample_perfect_tile(k, 2, decision=[4, 2]))
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k_0 in 4, k_1 in 2:
                block s(vi:2 = i, +vk:8 = k_0 * 2 + k_1):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        >>> print(sch.trace, end="")
        %b0 = get_block(name='s')
        %l0, %l1 = get_loops(block=%b0)
        %v0, %v1 = sample_perfect_tile(loop=%l1, num_tiles=2, max_innermost=None, decision=[4, 2])
        %l2, %l3 = split(loop=%l1, factors=[%v0, %v1])
        >>> again = replay(sch.trace.with_decision(2, [1, 8]), row_sum().func)
        >>> print(again, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k_0 in 1, k_1 in 8:
                block s(vi:2 = i, +vk:8 = k_0 * 8 + k_1):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        """
        found = find_loop(self.bare, loop.var)
        tiles = choose_tile(
            self.rng, found.extent, num_tiles, max_innermost, decision, found.var.name
        )
        return [SampledInt(tile) for tile in tiles]

    @primitive
    def sample_categorical(
        self,
        candidates: Sequence[C],
        weights: Sequence[float] | None = None,
        decision: C | None = None,
    ) -> C:
        """One of `candidates`, with chances in proportion to `weights` (equal where None).

        >>> sch = row_sum()
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k in 8:
                block s(vi:2 = i, +vk:8 = k):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        >>> factor = sch.sample_categorical([2, 4], [0.3, 0.7], decision=4)
        >>> i, k = sch.get_loops(sch.get_block("s"))
        >>> k_0, k_1 = sch.split(k, [None, factor])
        >>> print(sch, end="")
        func row_sum(x: int32[2, 8], out s: int32[2]):
            for i in 2, k_0 in 2, k_1 in 4:
                block s(vi:2 = i, +vk:8 = k_0 * 4 + k_1):
                    init:
                        s[vi] = 0
                    s[vi] = s[vi] + x[vi, vk]
        >>> print(sch.trace, end="")
        %v0 = sample_categorical(candidates=[2, 4], weights=[0.3, 0.7], decision=4)
        %b0 = get_block(name='s')
        %l0, %l1 = get_loops(block=%b0)
        %l2, %l3 = split(loop=%l1, factors=[None, %v0])
        """
        chosen = choose(self.rng, candidates, weights, decision)
        return SampledStr(chosen) if isinstance(chosen, str) else SampledInt(chosen)
