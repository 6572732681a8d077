"""Bus words of the program -> instructions, each with its target queue.

Input: the words that FETCH requested. Output: the current instruction, decoded as far as FETCH
needs it.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import at_most_one, contract
from daedal.hw.family import Platform
from daedal.hw.interfaces import read_word
from daedal.hw.layouts import INDEX_BITS, entry_layout
from daedal.isa.table import INSTRUCTIONS, Opcode, Unit, instruction_bits, instruction_layout
from daedal.isa.variant import Variant

__all__ = ["LENGTH_BITS", "Assembler"]

LENGTH_BITS = 32
"""Width of the number of instructions of a program."""


class Assembler(wiring.Component):
    """Collect the words of instructions, one per cycle, and show one instruction at a time.

    There are two buffers: while one presents its instruction, the other collects the words of the
    next. So `data.ready` depends on registers alone, and the instruction after a stalled one
    follows in the next cycle. An instruction is valid in the cycle after its last word.

    Parameters
    ----------
    variant
        The machine.

    Members
    -------
    start : ``In(1)``
        Pulse: forget everything, and expect the program of `length` instructions.
    running : ``In(1)``
        While 0, words are dropped.
    discard : ``In(1)``
        While 1, words are accepted even if both buffers are full.
    data : ``In(read_word(variant))``
    take : ``In(1)``
        Remove the current instruction; only while `valid`.
    valid, entry : ``Out(1)``, ``Out(entry_layout(variant))``
        The current instruction, if there is one; otherwise `entry.index` is the last one's.
    target : ``Out(4)``
        One bit per queued unit: the instruction's destination. `finish`: it is FINISH. `wrong`: it
        is neither, because of its opcode or an error response; `response` is the worst RRESP of its
        words.
    missing : ``Out(1)``
        There is no current instruction, and the program has no more.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._beats = instruction_bits(variant) // variant.bus.data_bits
        self._opcode_bits = instruction_layout(variant, Opcode.FINISH)["opcode"].width
        super().__init__(
            {
                "start": In(1),
                "length": In(LENGTH_BITS),
                "running": In(1),
                "discard": In(1),
                "data": In(read_word(variant)),
                "take": In(1),
                "valid": Out(1),
                "entry": Out(entry_layout(variant)),
                "target": Out(_QUEUES),
                "finish": Out(1),
                "wrong": Out(1),
                "response": Out(2),
                "missing": Out(1),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        word = self.data.payload
        words = data.ArrayLayout(len(word.data), self._beats)
        places = [Signal(words, name=f"words{n}") for n in range(2)]
        filled = Signal()  # the buffer that collects words
        # Decoded flags of the current instruction, and of the one behind it.
        verdict, spare = (Signal(_verdict_layout(), name=name) for name in ("verdict", "spare"))
        count = Signal(range(max(2, self._beats)))
        last = count == self._beats - 1
        worst = Signal(2)
        so_far = Mux(word.response > worst, word.response, worst)

        # `spare` is valid when both buffers hold an instruction.
        open_place = ~spare.valid
        complete = self.data.valid & open_place & last & self.running
        m.d.comb += self.data.ready.eq(self.discard | open_place)
        with m.If(self.data.valid & self.data.ready):
            m.d.sync += [count.eq(Mux(last, 0, count + 1)), worst.eq(Mux(last, 0, so_far))]
        for number, held in enumerate(places):
            # An open buffer's contents do not matter, so the enable need not include `data.valid`.
            for beat in range(self._beats):
                with m.If((filled == number) & open_place & (count == beat)):
                    m.d.sync += held[beat].eq(word.data)
        first = Mux(filled, places[1][0], places[0][0]) if self._beats > 1 else word.data
        judged = Signal(_verdict_layout())
        m.d.comb += [
            judged.eq(self._judge(first, word.response[1] | worst[1])),
            judged.response.eq(so_far),
            judged.valid.eq(1),
        ]
        with m.If(self.take | ~verdict.valid):
            m.d.sync += [
                verdict.eq(Mux(spare.valid, spare, Mux(complete, judged, 0))),
                spare.valid.eq(0),
            ]
        with m.Elif(complete):
            m.d.sync += spare.eq(judged)
        hidden = Signal(init=1)  # not the buffer of the current instruction
        m.d.sync += [filled.eq(filled ^ complete), hidden.eq(hidden ^ self.take)]
        with m.If(self.start):
            m.d.sync += [
                verdict.eq(0),
                spare.eq(0),
                count.eq(0),
                worst.eq(0),
                filled.eq(0),
                hidden.eq(1),
            ]
        m.d.comb += [
            self.valid.eq(verdict.valid),
            self.target.eq(verdict.target),
            self.finish.eq(verdict.finish),
            self.wrong.eq(verdict.valid & verdict.wrong),
            self.response.eq(verdict.response),
            self.entry.instruction.eq(Mux(hidden, *places)),
        ]
        self._count(m, complete)
        kinds = Cat(self.target, self.finish, self.wrong)
        for holds, rule in (
            (~self.take | self.valid | self.start, "only an instruction that is there must go"),
            (at_most_one(kinds), "an instruction must go one way"),
            (~self.valid | kinds.any(), "an instruction must go some way"),
        ):
            contract(m, platform, holds, rule)
        return m

    def _judge(self, first_word: Value, failed: Value) -> Value:
        """Decode an instruction's first word: the first members of `_verdict_layout`."""
        opcode = first_word[: self._opcode_bits]
        forms = INSTRUCTIONS.values()
        targets = [
            Cat(opcode == form.opcode for form in forms if form.unit is unit).any() & ~failed
            for unit in tuple(Unit)[:_QUEUES]
        ]
        finish = (opcode == Opcode.FINISH) & ~failed
        return Cat(*targets, finish, ~(Cat(*targets).any() | finish))

    def _count(self, m: Module, complete: Value) -> None:
        """Index of the current instruction, and the number of instructions still to come."""
        left, none_left = Signal(LENGTH_BITS), Signal()
        index, before = Signal(INDEX_BITS), Signal(INDEX_BITS)
        m.d.comb += [
            self.missing.eq(none_left & ~self.valid),
            self.entry.index.eq(Mux(self.valid, index, before)),
        ]
        with m.If(complete):
            m.d.sync += [left.eq(left - 1), none_left.eq(left == 1)]
        with m.If(self.take):
            m.d.sync += [index.eq(index + 1), before.eq(index)]
        with m.If(self.start):
            m.d.sync += [
                left.eq(self.length),
                none_left.eq(self.length == 0),
                index.eq(0),
                before.eq(0),
            ]


_QUEUES = 4


def _verdict_layout() -> data.StructLayout:
    return data.StructLayout(
        {"target": _QUEUES, "finish": 1, "wrong": 1, "response": 2, "valid": 1}
    )
