"""The test of memory at start-up: good memories pass, planted faults are found where they are."""

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
from amaranth.sim import Simulator

from daedal.common.bridge import MemoryTest
from daedal.hw.boards.memory_test import StartupTest
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")
WORDS, WORD_BYTES = 1 << 5, 8
ALL = (1 << 64) - 1


class Memory:
    """Words behind wires; a fault overrides what it does."""

    def __init__(self) -> None:
        self.words: dict[int, int] = {}
        self.accesses: list[tuple[int, bool]] = []
        self.written: list[int] = []

    def place(self, address: int) -> int:
        return address

    def stored(self, _address: int, word: int) -> int:
        return word

    def read(self, address: int) -> int:
        return self.words.get(self.place(address), ALL // 3)

    def write(self, address: int, word: int) -> None:
        place = self.place(address)
        self.words[place] = self.stored(place, word)


def watch(memory: Memory, num_words: int = WORDS, num_tested: int | None = None) -> tuple[int, int]:
    """The state and the address after the test, with a memory that takes its time."""
    dut = StartupTest(variant=TINY, num_words=num_words, num_tested=num_tested)
    pauses = random.Random(1)
    ended: list[tuple[int, int]] = []

    async def serve(ctx: Any) -> None:
        ctx.set(dut.bridge.valid, 1)  # a request that has to wait
        ctx.set(dut.memory.ready, 1)
        while ctx.get(dut.state) == MemoryTest.RUNNING:
            assert ctx.get(dut.bridge.ready) == 0
            if not ctx.get(dut.memory.valid):
                await ctx.tick()
                continue
            address = ctx.get(dut.memory.address)
            strobes, word = ctx.get(dut.memory.strobes), ctx.get(dut.memory.data)
            assert strobes in (0, 0xFF)
            memory.accesses.append((address, strobes != 0))
            await ctx.tick()
            assert ctx.get(dut.memory.valid) == 0, "a pulse"
            ctx.set(dut.memory.ready, 0)
            if strobes:
                memory.written.append(word)
                memory.write(address, word)
            else:
                await ctx.tick().repeat(1 + pauses.randrange(3))
                ctx.set(dut.memory.word, memory.read(address))
                ctx.set(dut.memory.word_valid, 1)
                await ctx.tick()
                ctx.set(dut.memory.word_valid, 0)
                ctx.set(dut.memory.word, ALL // 5)
            if pauses.randrange(2):
                await ctx.tick()
            ctx.set(dut.memory.ready, 1)
        assert ctx.get(dut.bridge.ready) == ctx.get(dut.memory.valid) == 1, "the bridge's turn"
        ended.append((ctx.get(dut.state), ctx.get(dut.address)))

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(serve)
    simulator.run()
    return ended[0]


def test_a_good_memory_passes_and_is_zero_afterwards() -> None:
    memory = Memory()
    assert watch(memory) == (MemoryTest.PASSED, 0)
    assert set(memory.words.values()) == {0}
    walk = range(WORDS)
    assert memory.accesses == [
        *((at, True) for at in walk),
        *((at, write) for at in walk for write in (False, True)),
        *((at, write) for at in walk for write in (False, True)),
    ]


def stuck(bit: int, level: int) -> Callable[[Memory], None]:
    """A data wire."""

    def plant(memory: Memory) -> None:
        mask = 1 << bit
        memory.stored = lambda _at, word: word | mask if level else word & ~mask  # type: ignore[method-assign]

    return plant


def cell(place: int, bit: int, level: int) -> Callable[[Memory], None]:
    """A cell that holds one value only."""

    def plant(memory: Memory) -> None:
        mask = 1 << bit if level else 0
        memory.stored = (  # type: ignore[method-assign]
            lambda at, word: (word & ~(1 << bit)) | mask if at == place else word
        )

    return plant


def wire(bit: int) -> Callable[[Memory], None]:
    """An address wire that is always low: word 0 is overwritten."""

    def plant(memory: Memory) -> None:
        memory.place = lambda at: at & ~(1 << bit)  # type: ignore[method-assign]

    return plant


def short(first: int, second: int) -> Callable[[Memory], None]:
    """Two address wires that touch: one pulls the other down."""

    def plant(memory: Memory) -> None:
        both = 1 << first | 1 << second
        memory.place = lambda at: at if at & both == both else at & ~both  # type: ignore[method-assign]

    return plant


def disturbed(aggressor: int, victim: int) -> Callable[[Memory], None]:
    """A write of a word changes a bit of another one, which comes later."""

    def plant(memory: Memory) -> None:
        write = memory.write

        def disturb(address: int, word: int) -> None:
            write(address, word)
            if address == aggressor:
                memory.words[victim] = memory.words.get(victim, 0) ^ 4

        memory.write = disturb  # type: ignore[method-assign]

    return plant


FAULTS = {
    "data wire 0 high": stuck(0, 1),
    "data wire 37 low": stuck(37, 0),
    "data wire 63 high": stuck(63, 1),
    "a cell that is always 1": cell(19, 5, 1),
    "a cell that is always 0": cell(31, 62, 0),
    "the other value of a cell": cell(19, 5, 0),
    **{f"address wire {bit}": wire(bit) for bit in range(5)},
    "address wires that touch": short(1, 4),
    "a write that disturbs": disturbed(3, 20),
}


def walked(memory: Memory) -> tuple[int, int]:
    """The three walks in Python."""
    for at in range(WORDS):
        memory.write(at, pattern_of(at))
    for flip, then in ((0, ALL), (ALL, None)):
        for at in range(WORDS):
            if memory.read(at) != pattern_of(at) ^ flip:
                return MemoryTest.FAILED, at * WORD_BYTES
            memory.write(at, 0 if then is None else pattern_of(at) ^ then)
    return MemoryTest.PASSED, 0


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_at_its_first_word(name: str) -> None:
    memories = Memory(), Memory()
    for memory in memories:
        FAULTS[name](memory)
    expected = walked(memories[1])
    assert expected[0] == MemoryTest.FAILED
    assert watch(memories[0]) == expected


def test_few_words_test_all_wires() -> None:
    memory = Memory()
    assert watch(memory, WORDS, 8) == (MemoryTest.PASSED, 0)
    places = {at for at, _ in memory.accesses}
    assert places == {low | high << 4 for low in range(4) for high in range(2)}


def test_words_are_written_by_their_addresses() -> None:
    memory = Memory()
    assert watch(memory, 1 << 22, 16) == (MemoryTest.PASSED, 0)
    places = [low | high << 20 for high in range(4) for low in range(4)]
    patterns = [pattern_of(place) for place in places]
    assert [at for at, _ in memory.accesses[:16]] == places
    assert memory.written[:16] == patterns
    assert memory.written[16:32] == [word ^ ALL for word in patterns]
    assert memory.written[32:] == [0] * 16


def test_words_of_addresses_that_differ_in_two_wires_differ() -> None:
    words: dict[int, tuple[int, ...]] = {}
    for flips in itertools.chain(
        [()], itertools.combinations(range(22), 1), itertools.combinations(range(22), 2)
    ):
        index = sum(1 << bit for bit in flips)
        word = pattern_of(index)
        assert word not in words, (flips, words[word])
        words[word] = flips


def pattern_of(index: int) -> int:
    """The pattern of a number, folded by hand: a lane is both halves, rotated."""
    low, high = index & 0xFFFF, index >> 16
    word = 0
    for lane in range(4):
        rotated = [
            ((half << by % 16) | (half >> (-by % 16))) & 0xFFFF if by % 16 else half
            for half, by in ((low, 5 * lane), (high, 3 * lane))
        ]
        word |= (rotated[0] ^ rotated[1] ^ (0xA53C * (2 * lane + 1) & 0xFFFF)) << 16 * lane
    return word


@pytest.mark.parametrize("num_tested", [3, 2 * WORDS])
def test_other_numbers_of_words_are_refused(num_tested: int) -> None:
    with pytest.raises(ValueError, match=f"num_tested must be a power of two up to {WORDS}"):
        StartupTest(variant=TINY, num_words=WORDS, num_tested=num_tested)
