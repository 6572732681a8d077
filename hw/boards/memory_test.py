"""Tests the memory at start-up, through the host's port, before anything else uses that.

Input: the bridge's accesses. Output: the same accesses once the test is over, and how it ended.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.common.bridge import MemoryTest
from daedal.hw.boards.memory_port import host_access
from daedal.hw.family import Platform
from daedal.hw.pipeline import register
from daedal.isa.variant import Variant

__all__ = ["StartupTest", "pattern_word"]

_LANE_BITS = 16
_ADDRESS_BITS = 32
_SALT = 0xA53C


def pattern_word(index: Value, data_bits: int) -> Value:
    """The word that belongs to word number `index`.

    Words whose numbers differ in one or two bits differ, and so do the lanes of 16 bits of a word:
    each is both halves of the number, rotated by amounts of its own.
    """
    padded = Cat(index, Const(0, 2 * _LANE_BITS))
    low, high = padded[:_LANE_BITS], padded[_LANE_BITS : 2 * _LANE_BITS]
    lanes = [
        low.rotate_left(5 * lane) ^ high.rotate_left(3 * lane) ^ (_SALT * (2 * lane + 1) & 0xFFFF)
        for lane in range(-(-data_bits // _LANE_BITS))
    ]
    return Cat(*lanes)[:data_bits]


class StartupTest(wiring.Component):
    """Three walks over the memory from address 0 on: write a pattern; read it and write its
    complement; read that and write zeros.

    So every cell holds both values, a word that is reached by two addresses is found, and a good
    memory is zero afterwards. The first word that is not what was written ends the test.

    Source: M. Marinescu, Simple and efficient algorithms for functional RAM testing, ITC 1982
    (march tests; this is MATS+ with a pattern of the address).

    Parameters
    ----------
    variant
        Bus widths.
    num_words
        Bus words of the memory.
    num_tested
        Words that are tested: all of them, or a power of two. Of their numbers, the lower half of
        the bits are the lowest of the address, the others its highest; a simulation tests all wires
        by few words.

    Members
    -------
    bridge : ``In(host_access(variant, num_words))``, not ready during the test.
    memory : ``Out(host_access(variant, num_words))``
    state : ``Out(MemoryTest)``
    address : ``Out(32)``
        The failing word, in bytes.
    """

    def __init__(self, *, variant: Variant, num_words: int, num_tested: int | None = None) -> None:
        self._num_tested = num_words if num_tested is None else num_tested
        if self._num_tested > num_words or self._num_tested & (self._num_tested - 1):
            raise ValueError(f"num_tested must be a power of two up to {num_words}")
        self._data_bits = variant.bus.data_bits
        self._byte_shift = variant.word_offset_bits
        access = host_access(variant, num_words)
        super().__init__(
            {
                "bridge": In(access),
                "memory": Out(access),
                "state": Out(MemoryTest, init=MemoryTest.RUNNING),
                "address": Out(_ADDRESS_BITS),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        count = Signal(range(self._num_tested))
        index = self._place(count)
        last = register(m, count.all(), name="last")
        own_valid, own_write = Signal(), Signal()
        value = Signal(self._data_bits, reset_less=True)
        word = Signal(self._data_bits, reset_less=True)
        running = Signal(init=1)
        with m.If(running):
            m.d.comb += [
                self.memory.valid.eq(own_valid),
                self.memory.address.eq(index),
                self.memory.strobes.eq(Mux(own_write, ~0, 0)),
                self.memory.data.eq(value),
            ]
        with m.Else():
            m.d.comb += [
                self.memory.valid.eq(self.bridge.valid),
                self.memory.address.eq(self.bridge.address),
                self.memory.strobes.eq(self.bridge.strobes),
                self.memory.data.eq(self.bridge.data),
                self.bridge.ready.eq(self.memory.ready),
                self.bridge.word_valid.eq(self.memory.word_valid),
            ]
        m.d.comb += self.bridge.word.eq(self.memory.word)
        self._walk(m, count, index, last, own_valid, own_write, value, word, running)
        return m

    def _place(self, count: Signal) -> Value:
        """The number of the word that `count` stands for."""
        address_bits = len(self.memory.address)
        low = (len(count) + 1) // 2
        if len(count) == address_bits:
            return count
        return Cat(count[:low], Const(0, address_bits - len(count)), count[low:])

    def _walk(
        self,
        m: Module,
        count: Signal,
        index: Value,
        last: Signal,
        own_valid: Signal,
        own_write: Signal,
        value: Signal,
        word: Signal,
        running: Signal,
    ) -> None:
        walk = Signal(range(3))
        wrong = register(m, word != value, name="wrong")
        pattern = register(m, pattern_word(index, self._data_bits), name="pattern")
        m.d.sync += own_valid.eq(0)

        def access(name: str, then: str, *, write: int) -> None:
            """States from the wait for the memory to the cycle after `valid`."""
            with m.State(name):
                with m.If(self.memory.ready):
                    m.d.sync += [own_valid.eq(1), own_write.eq(write)]
                    m.next = f"{name} SENT"
            with m.State(f"{name} SENT"):
                m.next = then

        with m.FSM():
            with m.State("COUNTED"):
                m.next = "BEGIN"
            with m.State("BEGIN"):  # `pattern` and `last` are those of `count`
                m.d.sync += value.eq(Mux(walk == 2, ~pattern, pattern))
                m.next = "READ"
                with m.If(walk == 0):
                    m.next = "WRITE"
            access("READ", "WAIT", write=0)
            with m.State("WAIT"):
                m.d.sync += word.eq(self.memory.word)
                with m.If(self.memory.word_valid):
                    m.next = "COMPARE"
            with m.State("COMPARE"):
                m.next = "JUDGE"
            with m.State("JUDGE"):
                m.d.sync += value.eq(Mux(walk == 1, ~value, 0))
                m.next = "WRITE"
                with m.If(wrong):
                    m.d.sync += [
                        self.state.eq(MemoryTest.FAILED),
                        self.address.eq(index << self._byte_shift),
                        running.eq(0),
                    ]
                    m.next = "DONE"
            access("WRITE", "STEP", write=1)
            with m.State("STEP"):
                m.d.sync += count.eq(count + 1)
                m.next = "COUNTED"
                with m.If(last):
                    m.d.sync += walk.eq(walk + 1)
                    with m.If(walk == 2):
                        m.d.sync += [self.state.eq(MemoryTest.PASSED), running.eq(0)]
                        m.next = "DONE"
            with m.State("DONE"):
                pass
