"""Measures the memory of a board: what the SDRAM controller moves, whether it errs, its clock.

    python -m bench.synthesis.board [--step sdram|area|whole|networks|frames] [--write]
                          [--bursts N] [--programs N] [--seed K] [--mhz F] [--json FILE]

Output: bytes a bus cycle on the bursts of whole networks and on random rows, random bursts compared
with a numpy memory, and planted faults, each with its bar. The chip checks every time of its data
sheet meanwhile (`sim/rtl/hdl/sdram_chip.v`). The networks are those of `bench.zoo`, with random
weights: no shared model is needed. Step `area` routes the controller alone, with three seeds, and
step `whole` a board with machine `tiny`; with `--write`, the resources of the board's other logic
go into the table that `daedal explore --board` reads. Step `networks` runs random programs and
whole networks on the RTL with the board's SDRAM and compares cycles and bytes; what ran with the
same sources is not run again (``.daedal/cycles``). Step `frames` counts how many frames and tokens
a second networks take with the board's SDRAM, and with faster memories.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

import numpy as np

import daedal
from bench.changes.ledger_models import MissingModel
from bench.left_out import LeftOut
from bench.measured import Measured, shown
from bench.networks.board_rates import BOARD as RATED_BOARD
from bench.networks.board_rates import BOARD_MEMORY, BOARD_NETWORKS, count_rate
from bench.synthesis.board_networks import run_networks, run_programs
from bench.synthesis.sdram_bursts import WORD_BYTES, play_and_check, random_bursts, random_rows
from bench.zoo.networks import NETWORKS
from bench.zoo.quantized import quantized
from daedal.common.errors import DeviceError, ToolError
from daedal.common.files import write_atomically
from daedal.hw.boards import top
from daedal.hw.boards.bitstream import board_request
from daedal.hw.boards.board_file import load_board
from daedal.hw.boards.sdram.alone import TOP_MODULE, emit_alone
from daedal.hw.boards.settings import BoardSettings
from daedal.hw.family import Family
from daedal.hw.synth.cache import AreaCache
from daedal.hw.synth.families import RESOURCES
from daedal.hw.synth.flow import implement
from daedal.hw.synth.place import PlaceRequest, pack_bitstream
from daedal.isa.bursts import program_bursts
from daedal.isa.memory_model import PRESETS
from daedal.isa.protocols import next_page
from daedal.isa.sdram_chip import CHIPS
from daedal.isa.sdram_slots import SlotTimes
from daedal.isa.variant import load_variant
from daedal.sim.rtl.device import default_cache_dir
from daedal.sim.rtl.sdram import Bursts, SdramSimulation, open_sdram
from daedal.sim.rtl.toolchain import require_tools
from daedal.sim.rtl.verilog import kept_board_verilog, kept_verilog

__all__ = ["mixed_rows", "network_bursts", "run_area", "run_sdram", "run_whole"]

VARIANT = "ecp5"
CHIP, BUS_HZ = "W9825G6KH-5", 91.67e6
"""The fastest part that fits the board, at the clock that the whole board must reach."""
SLOW_CHIP, SLOW_BUS_HZ = "IS42S16160G-7", 1e9 / 14
"""The part that most boards have, at its fastest clock."""

TRACES = ("resnet18", "mobilenet_v1")
TRACE_BAR, MIXED_BAR = 3.8, 3.6
"""Bytes a bus cycle, of 4 that the chip's pins move."""
MIXED_ROWS = 3_000
SEEDS = (1, 2, 3)
ASKED_MHZ = 200.0
"""Of both clocks, which nextpnr has one option for; what is reached is given for each."""
BUS_BAR_MHZ = 90.0
BURSTS_AT_ONCE = 500
WHOLE_VARIANT = "tiny"
BOARD = "ulx3s-85f"
CHIP_PHASE = 180.0
BOARDS = (
    Path(__file__).resolve().parents[2] / "daedal" / "codesign" / "hardware" / "data"
) / "board_logic.json"
"""What `daedal.codesign.hardware.board` reads."""
FAULTS = {
    1: "late strobe",
    2: "last word of a row goes elsewhere",
    3: "a bank is opened twice",
    4: "no refresh",
    5: "read data a clock late",
    6: "write data a clock late",
    7: "the row beside is opened",
}
SHORT_TIMES = ("row_open_ns", "refresh_ns", "precharge_ns", "row_to_data_ns")
"""Times that the controller believes to be shorter than the chip's."""


def network_bursts(name: str, variant_name: str = VARIANT) -> Bursts:
    """The LOADs and STOREs of a whole run of a network of the zoo, with random weights."""
    artifact = daedal.compile(quantized(NETWORKS[name]), load_variant(variant_name))
    parts, end = [], 0
    for launch in artifact.launches:
        bases = []
        for size in launch.program.region_bytes:
            bases.append(end)
            end = next_page(end + size)
        parts.append(program_bursts(launch.program, bases))
    columns = ("writes", "addresses", "beats")
    writes, addresses, beats = (
        np.concatenate([getattr(part, column) for part in parts]) for column in columns
    )
    return Bursts(writes, addresses, beats, np.zeros(int(beats[writes > 0].sum()), np.uint64))


def bytes_a_cycle(simulation: SdramSimulation, bursts: Bursts, *, in_order: bool) -> float:
    """From the first address to the last answer."""
    played = simulation.play(bursts, most_open=8, in_order=in_order)
    cycles = played.answer_cycles.max() - played.address_cycles.min() + 1
    return float(bursts.beats.sum() * WORD_BYTES / cycles)


def run_sdram(num_bursts: int, say: Callable[[str], None]) -> Iterator[Measured]:
    """All figures of step `sdram`."""
    traces = {}
    for name in TRACES:
        say(f"compiling {name} for {VARIANT}")
        traces[name] = network_bursts(name)
    for chip, bus_hz in ((CHIP, BUS_HZ), (SLOW_CHIP, SLOW_BUS_HZ)):
        yield from _bandwidth(SlotTimes.of(CHIPS[chip], 2 * bus_hz), traces, say)
    times = SlotTimes.of(CHIPS[CHIP], 2 * BUS_HZ)
    yield _random(times, num_bursts, say)
    yield _planted(times, say)


def _bandwidth(
    times: SlotTimes, traces: dict[str, Bursts], say: Callable[[str], None]
) -> Iterator[Measured]:
    at = f"{times.chip.name}, bus {times.clock_hz / 2e6:.4g} MHz"
    with _powered(times, say) as simulation:
        size = simulation.memory.size
        for name, bursts in traces.items():
            share = f"{len(bursts)} bursts, {int(bursts.beats.sum()) * WORD_BYTES / 1e6:.1f} MB"
            say(f"playing {name} on {at}")
            value = bytes_a_cycle(simulation, bursts, in_order=True)
            yield Measured(f"{name}, {at}", value, TRACE_BAR, note=share)
        rng = np.random.default_rng(1)
        lengths = {length: [length] for length in (64, 112, 256)}
        for name, rows, writes, bar in (
            *((f"rows of {n} bytes, read", rows, 0.0, None) for n, rows in lengths.items()),
            ("rows of 64 to 256 bytes, half of them written", [64, 128, 192, 256], 0.5, MIXED_BAR),
        ):
            bursts = mixed_rows(rng, size, rows, writes=writes)
            value = bytes_a_cycle(simulation, bursts, in_order=False)
            yield Measured(f"{name}, {at}", value, bar)


def mixed_rows(rng: np.random.Generator, size: int, lengths: list[int], *, writes: float) -> Bursts:
    """Random rows of several lengths."""
    parts = [
        random_rows(rng, MIXED_ROWS // len(lengths), size // n * n, n, writes=writes)
        for n in lengths
    ]
    order = rng.permutation(sum(len(part) for part in parts))
    writes_, addresses, beats = (
        np.concatenate([getattr(part, column) for part in parts])[order]
        for column in ("writes", "addresses", "beats")
    )
    # None may cross a page.
    addresses -= np.maximum(addresses % 4096 + beats * WORD_BYTES - 4096, 0)
    words = np.zeros(int(beats[writes_].sum()), np.uint64)
    return Bursts(writes_, addresses, beats, words)


def _random(times: SlotTimes, count: int, say: Callable[[str], None]) -> Measured:
    """Random bursts with random pauses on all channels."""
    say(f"playing {count} random bursts")
    rng, wrong, done = np.random.default_rng(2), 0, 0
    with _powered(_small(times), say) as simulation:
        simulation.memory[:] = rng.integers(256, size=simulation.memory.size, dtype=np.uint8)
        while done < count:
            some = min(BURSTS_AT_ONCE, count - done)
            bursts = random_bursts(rng, some, simulation.memory.size)
            stalls = {name: int(rng.integers(200)) for name in ("ar", "r", "aw", "w", "b")}
            _, errors = play_and_check(simulation, bursts, stalls=stalls, seed=done + 1)
            wrong += len(errors)
            done += some
    return Measured(f"errors in {count} random bursts", wrong, 0, exact=True)


def _planted(times: SlotTimes, say: Callable[[str], None]) -> Measured:
    """Faults between controller and chip, and chips that are slower than it knows."""
    small = _small(times)
    found = []
    for number, fault in FAULTS.items():
        with _powered(small, say, settings={"fault": number}) as simulation:
            if _is_noticed(simulation):
                found.append(fault)
    for name in SHORT_TIMES:
        slow = replace(small.chip, **{name: 1.5 * getattr(small.chip, name)}, row_cycle_ns=100)
        with _powered(small, say, chip=slow) as simulation:
            if _is_noticed(simulation):
                found.append(f"short {name}")
    missing = [
        f for f in (*FAULTS.values(), *(f"short {n}" for n in SHORT_TIMES)) if f not in found
    ]
    total = len(FAULTS) + len(SHORT_TIMES)
    note = "missed: " + ", ".join(missing) if missing else ", ".join(found)
    return Measured(f"planted faults found, of {total}", len(found), total, exact=True, note=note)


def _is_noticed(simulation: SdramSimulation) -> bool:
    rng = np.random.default_rng(3)
    simulation.memory[:] = rng.integers(256, size=simulation.memory.size, dtype=np.uint8)
    try:
        _, wrong = play_and_check(simulation, random_bursts(rng, 100, simulation.memory.size))
    except DeviceError:
        return True
    return bool(wrong)


def _small(times: SlotTimes) -> SlotTimes:
    """The same times on a chip of 8 MB, which is compared as a whole, with a short pause."""
    chip = replace(times.chip, row_bits=11, power_up_ns=2_000.0)
    return SlotTimes.of(chip, times.clock_hz)


def run_area(say: Callable[[str], None]) -> Iterator[Measured]:
    """Cells of the controller alone on an ECP5-85F of speed grade 6, and its clocks."""
    variant, times = load_variant(VARIANT), SlotTimes.of(CHIPS[CHIP], 2 * BUS_HZ)
    done = implement(
        variant,
        emit_alone(variant, times, Family.ECP5),
        Family.ECP5,
        default_cache_dir().parent / "synth",
        top=TOP_MODULE,
        requests=[PlaceRequest(target_mhz=ASKED_MHZ, seed=seed) for seed in SEEDS],
        num_processes=os.cpu_count() or 1,
        progress=say,
    )
    for routed in done.routes:
        used = ", ".join(f"{kind} {used}" for kind, (used, _) in routed.utilization.items())
        seed = routed.request.seed
        for clock, bar in (("clk", BUS_BAR_MHZ), ("pins_clk", 2 * BUS_BAR_MHZ)):
            value = routed.fmax_mhz[clock]
            yield Measured(f"Fmax of {clock} in MHz, seed {seed}", value, bar, note=used)


def run_whole(say: Callable[[str], None], write: bool) -> Iterator[Measured]:
    """Resources of a whole board less those of its machine, and the board's clock."""
    variant, chip = load_variant(WHOLE_VARIANT), CHIPS[CHIP]
    cache = default_cache_dir()
    folder = cache.parent / "synth"
    machine = implement(
        variant,
        kept_verilog(variant, cache, say, family=Family.ECP5),
        Family.ECP5,
        folder,
        progress=say,
    )
    board = load_board(BOARD)
    settings = BoardSettings.for_baud(board, variant, board.clock(BUS_HZ, CHIP_PHASE), chip)
    text = kept_board_verilog(settings, cache, say, family=Family.ECP5)
    report = AreaCache(folder).synthesize(text, Family.ECP5, top=top.TOP_MODULE, progress=say)
    others = {name: getattr(report, name) - getattr(machine.report, name) for name in RESOURCES}
    for name, used in others.items():
        yield Measured(f"{RESOURCES[name]} of the board's logic", used, None)
    if write:
        known = json.loads(BOARDS.read_text(encoding="utf-8"))
        known["resources"] = others
        write_atomically(BOARDS, json.dumps(known, indent=1) + "\n")
    routed = implement(
        variant,
        text,
        Family.ECP5,
        folder,
        top=top.TOP_MODULE,
        requests=[board_request(settings, seed) for seed in SEEDS],
        num_processes=os.cpu_count() or 1,
        progress=say,
    )
    reached = dict.fromkeys(SEEDS, 0.0)  # of seeds that were given up
    for route in routed.routes:
        reached[route.request.seed] = route.slowest_mhz
        clocks = ", ".join(f"{mhz:.1f}" for mhz in route.fmax_mhz.values())
        note = f"clocks of bus and pins {clocks}; {route.worst.sentence}"
        title = f"MHz of the board with {WHOLE_VARIANT}, seed {route.request.seed}"
        yield Measured(title, route.slowest_mhz, None, note=note)
    yield Measured(f"MHz, median of {len(SEEDS)} seeds", median(reached.values()), BUS_BAR_MHZ)
    bitstream = pack_bitstream(routed.best.config) if routed.best and routed.best.config else b""
    yield Measured("bytes of the bitstream", len(bitstream), 1)


def _powered(times: SlotTimes, say: Callable[[str], None], **options):  # type: ignore[no-untyped-def]
    return open_sdram(load_variant(VARIANT), times, default_cache_dir(), progress=say, **options)


def say(text: str) -> None:
    """Report progress beside the results."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Measure, print, and say whether every bar holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--step", choices=list(STEPS), help="by default all")
    parser.add_argument("--write", action="store_true", help="step whole: update the table")
    parser.add_argument("--bursts", type=int, default=10_000, help="step sdram: random bursts")
    parser.add_argument("--programs", type=int, default=1_000, help="step networks: random ones")
    parser.add_argument("--seed", type=int, default=0, help="step networks: of the first program")
    parser.add_argument("--mhz", type=float, help="step frames: by default the memory's fastest")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    left_out = LeftOut()
    records: list[Measured] = []
    for name, run in STEPS.items():
        if options.step not in (None, name):
            continue
        try:
            for record in run(options, left_out):
                records.append(shown(record))
                _write(options.json, records, left_out)
        except ToolError as error:
            left_out.add(f"step {name}", str(error))
    left_out.show(print)
    _write(options.json, records, left_out)
    return int(bool(left_out) or not all(record.passed for record in records))


def _step_sdram(options: argparse.Namespace, _left_out: LeftOut) -> Iterator[Measured]:
    require_tools("native")
    yield from run_sdram(options.bursts, say)


def _step_area(_options: argparse.Namespace, _left_out: LeftOut) -> Iterator[Measured]:
    yield from run_area(say)


def _step_whole(options: argparse.Namespace, _left_out: LeftOut) -> Iterator[Measured]:
    yield from run_whole(say, options.write)


def _step_networks(options: argparse.Namespace, left_out: LeftOut) -> Iterator[Measured]:
    require_tools("native")
    memory = PRESETS[RATED_BOARD.memory]
    yield from run_programs(memory, options.seed, options.programs, say)
    yield from run_networks(memory, left_out, say)


def _step_frames(options: argparse.Namespace, left_out: LeftOut) -> Iterator[Measured]:
    mhz = options.mhz or RATED_BOARD.most_mhz
    for network in BOARD_NETWORKS:
        say(f"{network.title}: compiling and counting")
        try:
            rate = count_rate(network, mhz)
        except MissingModel as missing:
            left_out.add(network.title, str(missing))
            continue
        shares = ", ".join(f"{name} {share:.0%}" for name, share in rate.shares.items())
        for memory in rate.figures:
            note = f"bound by {rate.bound}: {shares}" if memory == BOARD_MEMORY else ""
            name = f"{network.title} on {network.machine}, {memory}, {mhz:g} MHz"
            yield Measured(
                f"{name}: {network.result} a second", rate.per_second(memory), None, note=note
            )


STEPS: dict[str, Callable[[argparse.Namespace, LeftOut], Iterator[Measured]]] = {
    "sdram": _step_sdram,
    "area": _step_area,
    "whole": _step_whole,
    "networks": _step_networks,
    "frames": _step_frames,
}


def _write(path: Path | None, records: Sequence[Measured], left_out: LeftOut) -> None:
    """What there is so far."""
    if path is None:
        return
    document = {
        "board": [asdict(record) | {"passed": record.passed} for record in records],
        "left_out": left_out.to_json(),
    }
    write_atomically(path, json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
