"""Claims about any block that takes words from a stream and outputs them in order."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal

from daedal.hw.formal.claims import Claims

__all__ = ["FirstInFirstOut"]


class FirstInFirstOut(Claims):
    """No word is lost, duplicated, changed or reordered, and none is delayed without need.

    One arbitrary word is tracked: its value and the number of words before it are recorded as it
    enters; it must leave after exactly that many others. The sender may change its mind in any
    cycle.

    Parameters
    ----------
    block : component with streams `i` and `o` of unsigned words.
    capacity : words that it may hold. room : words that it must hold before it refuses one.
    latency : cycles after which the first word must be at the output.
    """

    def __init__(self, block: Any, *, capacity: int, room: int, latency: int) -> None:
        super().__init__()
        self._block = block
        self._capacity = capacity
        self._room = room
        self._latency = latency

    def state(self, m: Module) -> None:
        m.submodules.block = block = self._block
        width = len(block.i.payload)
        m.d.comb += [
            block.i.valid.eq(self.free(1, "give")),
            block.i.payload.eq(self.free(width, "word")),
            block.o.ready.eq(self.free(1, "take")),
        ]
        held = Signal(range(self._capacity + 2))
        push, pop = Signal(), Signal()
        m.d.comb += [
            push.eq(block.i.valid & block.i.ready),
            pop.eq(block.o.valid & block.o.ready),
        ]
        m.d.sync += held.eq(held + push - pop)
        self.require(m, "bounded", held <= self._capacity)
        self.require(m, "nothing_from_nothing", ~block.o.valid | (held != 0))
        self.require(m, "accepts", block.i.ready | (held >= self._room))
        if hasattr(block, "empty"):
            self.require(m, "empty", block.empty == (held == 0))

        late = Signal(range(self._latency + 2))
        with m.If((held == 0) | block.o.valid):
            m.d.sync += late.eq(0)
        with m.Elif(late <= self._latency):
            m.d.sync += late.eq(late + 1)
        # `late` is 0 in the first cycle after the word entered.
        self.require(m, "prompt", block.o.valid | (held == 0) | (late + 1 < self._latency))

        stuck, offered = Signal(), Signal(width)
        m.d.sync += [stuck.eq(block.o.valid & ~block.o.ready), offered.eq(block.o.payload)]
        self.require(m, "stable", ~stuck | (block.o.valid & (block.o.payload == offered)))
        self._follow(m, held, push, pop)
        self.reach(m, "full", held == self._capacity)

    def _follow(self, m: Module, held: Signal, push: Signal, pop: Signal) -> None:
        choose = self.free(1, "choose")
        followed, seen = Signal(), Signal()
        ahead, word = Signal.like(held), Signal.like(self._block.i.payload)
        with m.If(push & choose & ~followed & ~seen):
            m.d.sync += [
                followed.eq(1),
                word.eq(self._block.i.payload),
                ahead.eq(held - pop),
            ]
        with m.Elif(followed & pop):
            m.d.sync += [
                ahead.eq(Mux(ahead == 0, 0, ahead - 1)),
                followed.eq(ahead != 0),
                seen.eq(ahead == 0),
            ]
        leaves = followed & (ahead == 0) & self._block.o.valid
        self.require(m, "in_order", ~leaves | (self._block.o.payload == word))
        self.reach(m, "followed", seen)
