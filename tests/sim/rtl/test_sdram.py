"""The SDRAM controller with a chip that checks every time: random bursts, and planted faults."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from bench.correctness.rtl_launches import CACHE
from bench.synthesis.sdram_bursts import play_and_check, random_bursts
from daedal.common.errors import DeviceError
from daedal.hw.boards.sdram.alone import emit_alone
from daedal.isa.sdram_chip import CHIPS, SdramChip
from daedal.isa.sdram_slots import SlotTimes
from daedal.isa.variant import load_variant
from daedal.sim.rtl.sdram import Bursts, HostAccesses, SdramSimulation, open_sdram
from tests.sim.rtl.sdram_reference import Burst, SdramReference

pytestmark = pytest.mark.rtl

VTA = load_variant("vta")
# A chip of 8 MB with a short pause: whole memories are compared. The real one has its own test.
CHIP = replace(CHIPS["W9825G6KH-5"], row_bits=11, power_up_ns=2_000.0)
TIMES = SlotTimes.of(CHIP, 2 * 91.67e6)
STALLS = {
    "none": {},
    "some": {"ar": 128, "r": 64, "aw": 128, "w": 32, "b": 128, "host": 250},
    "slow reader": {"r": 240, "b": 250},
    "slow writer": {"w": 200, "aw": 200},
}


@pytest.fixture(scope="session")
def verilog() -> str:
    return emit_alone(VTA, TIMES, assertions=True)


@pytest.fixture
def powered(verilog: str, native: str) -> Iterator[Callable[..., SdramSimulation]]:
    """Function: power up a controller and a chip; options as of `open_sdram`."""
    opened = []

    def power(**options: object) -> SdramSimulation:
        opened.append(open_sdram(VTA, TIMES, CACHE, verilog=verilog, **options))  # type: ignore[arg-type]
        return opened[-1].__enter__()

    yield power
    for simulation in opened:
        simulation.__exit__(None, None, None)


def fill(simulation: SdramSimulation, rng: np.random.Generator) -> None:
    noise = rng.integers(256, size=1 << 20, dtype=np.uint8)
    simulation.memory[:] = np.resize(noise, simulation.memory.size)


@pytest.mark.parametrize("stalls", STALLS)
def test_random_bursts_and_the_host(
    powered: Callable[..., SdramSimulation], stalls: str, rng: np.random.Generator
) -> None:
    simulation = powered()
    fill(simulation, rng)
    size = simulation.memory.size
    for _ in range(2):
        bursts = random_bursts(rng, 150, size - 4096)
        count = 40
        host = HostAccesses(
            addresses=size // 8 - 1 - rng.integers(64, size=count).astype(np.uint64),
            strobes=np.where(rng.random(count) < 0.5, 0, rng.integers(256, size=count)),
            words=rng.integers(1 << 64, size=count, dtype=np.uint64),
        )
        _, wrong = play_and_check(simulation, bursts, host, stalls=STALLS[stalls], seed=7)
        assert not wrong


def test_short_bursts_in_few_rows(
    powered: Callable[..., SdramSimulation], rng: np.random.Generator
) -> None:
    """Every second burst needs a row that another one has just closed; words next to each other."""
    simulation = powered()
    fill(simulation, rng)
    count = 300
    beats = rng.integers(1, 4, size=count)
    writes = rng.random(count) < 0.5
    places = rng.integers(12, size=count) * 1024 + rng.choice([0, 8, 1024 - 24], size=count)
    bursts = Bursts(
        writes=writes,
        addresses=places + np.where(writes, 1 << 20, 0),
        beats=beats,
        words=rng.integers(1 << 64, size=beats[writes].sum(), dtype=np.uint64),
        strobes=rng.integers(256, size=beats[writes].sum(), dtype=np.uint8),
        ids=rng.integers(2, size=count),
    )
    _, wrong = play_and_check(simulation, bursts)
    assert not wrong


def test_a_read_sees_the_write_that_was_answered(
    powered: Callable[..., SdramSimulation], rng: np.random.Generator
) -> None:
    simulation = powered()
    words = rng.integers(1 << 64, size=32, dtype=np.uint64)
    write = Bursts(np.ones(1), np.array([4096 + 896]), np.array([16]), words[:16])
    for part in (words[:16], words[16:]):
        simulation.play(replace(write, words=part))
        played = simulation.play(replace(write, writes=np.zeros(1), words=part[:0]))
        assert np.array_equal(played.read_words, part)


def test_after_a_reset_of_the_machine_bursts_are_forgotten(
    powered: Callable[..., SdramSimulation], rng: np.random.Generator
) -> None:
    """At any time; what was read or waits is not answered, and the chip goes on."""
    simulation = powered()
    fill(simulation, rng)
    for moment in range(1, 180, 6):
        aborted = random_bursts(rng, 6, simulation.memory.size)
        simulation.play(aborted, reset_at=moment, most_open=4)
        # The rest of a write that had begun still goes to the chip's pins.
        _, wrong = play_and_check(simulation, random_bursts(rng, 4, simulation.memory.size))
        assert not wrong, moment


@pytest.mark.slow
def test_the_whole_chip_with_its_pause(native: str) -> None:
    """32 MB, initialized after 200 us, not before."""
    chip = CHIPS["W9825G6KH-5"]
    times = SlotTimes.of(chip, TIMES.clock_hz)
    last = np.array([chip.size_bytes - 8])
    with open_sdram(VTA, times, CACHE) as simulation:
        write = Bursts(np.ones(1), last, np.ones(1, int), np.array([12345], np.uint64))
        played = simulation.play(write)
        assert simulation.memory[-8:].view(np.uint64)[0] == 12345
    pause_cycles = chip.power_up_ns * 1e-9 * TIMES.clock_hz / 2
    assert pause_cycles < played.cycles < 1.02 * pause_cycles


@pytest.mark.slow
def test_columns_that_come_a_clock_later(native: str, rng: np.random.Generator) -> None:
    """What is a fault otherwise is right for a controller that captures a clock later."""
    verilog = emit_alone(VTA, TIMES, capture_clocks=2, assertions=True)
    with open_sdram(VTA, TIMES, CACHE, verilog=verilog, settings={"fault": 5}) as simulation:
        fill(simulation, rng)
        _, wrong = play_and_check(simulation, random_bursts(rng, 100, simulation.memory.size))
        assert not wrong


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (1, None),
        (2, None),
        (3, "the SDRAM got ACTIVE for a bank with an open row"),
        (4, r"was not refreshed in time \(tREFI\)"),
        (5, None),
        (6, "the SDRAM got no data on its pins for a WRITE"),
        (7, None),
    ],
    ids=[
        "late strobe",
        "last word of a row",
        "bank opened twice",
        "no refresh",
        "late read",
        "late write",
        "wrong row",
    ],
)
def test_a_planted_fault_is_found(
    powered: Callable[..., SdramSimulation], fault: int, message: str | None, rng
) -> None:
    """By a sentence of the chip, or by the data."""
    simulation = powered(settings={"fault": fault})
    fill(simulation, rng)
    bursts = random_bursts(rng, 60, simulation.memory.size)
    if message is None:
        _, wrong = play_and_check(simulation, bursts)
        assert wrong
    else:
        with pytest.raises(DeviceError, match=r"^at \d+ ns .*" + message):
            play_and_check(simulation, bursts)


CLOCK_NS = 1e9 / TIMES.clock_hz


@pytest.mark.parametrize(
    ("time", "clocks", "message"),
    [
        ("precharge_ns", 5, "too soon after PRECHARGE (tRP)"),
        ("row_to_data_ns", 5, "READ or WRITE too soon after ACTIVE (tRCD)"),
        ("row_open_ns", 11, "PRECHARGE too soon after ACTIVE (tRAS)"),
        ("row_cycle_ns", 16, "ACTIVE too soon after ACTIVE of the same bank (tRC)"),
        ("write_recovery_ns", 3, "PRECHARGE too soon after the last column of a WRITE (tWR)"),
        ("refresh_ns", 15, "PRECHARGE too soon after REFRESH (tRFC)"),
        ("refresh_interval_ns", None, "was not refreshed in time (tREFI)"),
        ("power_up_ns", None, "PRECHARGE before the end of its power-up pause"),
    ],
)
def test_a_chip_that_is_slower_than_the_controller_knows(
    powered: Callable[..., SdramSimulation], time: str, clocks: int | None, message: str, rng
) -> None:
    """The controller keeps each time, but no clock more of it."""
    wanted = (clocks + 0.5) * CLOCK_NS if clocks else getattr(CHIP, time)
    wanted = {"refresh_interval_ns": 0.9, "power_up_ns": 1.1}.get(time, 1) * wanted
    simulation = powered(chip=_changed(time, wanted))
    beats = np.resize([1, 1, 1, 20], 400)
    places = rng.integers(4, size=400) * 4096
    bursts = Bursts(np.arange(400) % 2, places, beats, np.zeros(beats.sum(), np.uint64))
    with pytest.raises(DeviceError, match=r"^at \d+ ns the SDRAM .*" + re.escape(message)):
        for _ in range(4):
            simulation.play(bursts)


def _changed(time: str, value_ns: float) -> SdramChip:
    chip = replace(CHIP, **{time: value_ns})
    return chip if time != "row_open_ns" else replace(chip, row_cycle_ns=max(value_ns, 66.0))


def test_what_no_controller_may_send(powered: Callable[..., SdramSimulation]) -> None:
    """The chip complains about a mode with another latency."""
    simulation = powered(chip=replace(CHIP, cas_latency=2))
    with pytest.raises(DeviceError, match="got another MODE than the controller is made for"):
        simulation.play(Bursts(np.zeros(1), np.zeros(1), np.ones(1)))


def test_every_word_moves_in_the_cycle_that_the_rules_say(
    powered: Callable[..., SdramSimulation], rng: np.random.Generator
) -> None:
    """A machine that is always ready; its bursts come alone, in crowds, and in between."""
    simulation, reference = powered(), SdramReference(TIMES)
    for gap in (0, 20, 100, 3):
        bursts = random_bursts(rng, 60, simulation.memory.size)
        bursts = replace(bursts, not_before=np.cumsum(rng.integers(gap + 1, size=60)))
        # The front's queues never fill with so few words.
        bursts = _first_words(bursts, 32)
        played = simulation.play(bursts, most_open=8)
        reference.advance(played.began)
        expected, first = [], 0
        for number, beats in enumerate(bursts.beats):
            waits = played.address_cycles[number] + 3
            if bursts.writes[number]:
                waits = max(waits, played.beat_cycles[first + beats - 1] + 2)
            word = int(bursts.addresses[number]) // 8
            expected.append(
                Burst(bool(bursts.writes[number]), word, int(beats), int(waits) + played.began)
            )
            first += beats
        reference.run(expected)
        first = 0
        for number, burst in enumerate(expected):
            decided = np.array(burst.decisions) - played.began
            if burst.write:
                assert played.answer_cycles[number] == decided[-1] + 2
            else:
                found = played.beat_cycles[first : first + burst.words]
                assert found.tolist() == (decided + 12).tolist(), number
            first += burst.words


def _first_words(bursts: Bursts, most: int) -> Bursts:
    """The same bursts without their words from `most` on."""
    assert bursts.strobes is not None
    writes = np.flatnonzero(bursts.writes)
    ends = np.cumsum(bursts.beats[writes])
    kept = np.concatenate(
        [
            np.arange(end - beats, end - beats + min(beats, most))
            for end, beats in zip(ends, bursts.beats[writes], strict=True)
        ]
    )
    return replace(
        bursts,
        beats=np.minimum(bursts.beats, most),
        words=bursts.words[kept],
        strobes=bursts.strobes[kept],
    )
