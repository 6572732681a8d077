"""Random programs on the RTL against the functional simulator, many per simulator process."""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.correctness.coverage import Coverage
from bench.correctness.rtl_launches import expected_memories, placed
from daedal.isa.memory_model import memory_model
from daedal.isa.profile import Profile
from daedal.isa.random_programs import RandomProgram, random_program
from daedal.isa.registers import ErrorCode
from daedal.isa.table import Opcode, Unit
from daedal.isa.variant import Variant, load_variant, shipped_variants
from daedal.sim.rtl.device import RtlDevice
from daedal.sim.rtl.launch import Launch, Outcome

__all__ = [
    "EXTRA_VARIANTS",
    "RandomRun",
    "every_variant",
    "ledger_of",
    "mismatch",
    "run_random_programs",
]

ROOT = Path(__file__).resolve().parents[2]
CHUNK = 200
"""Programs of one simulator process."""

_TINY = load_variant("tiny")
EXTRA_VARIANTS = {
    variant.name: variant
    for variant in (
        # As much as possible unlike `tiny`, in one machine that is built as fast.
        _TINY.replace(
            "mixed",
            batch=2,
            depthwise_taps=1,
            multiplier_style="packed",
            acc_banks=2,
            acc_bytes=16384,
            out_bytes=4096,
            data_bits=128,
            read_bursts=4,
            write_bursts=16,
            queue_depth=16,
            token_bits=6,
            alu_lanes=8,
            requantize_lanes=8,
            multiplier_bits=24,
            tables=4,
            lane_reductions=True,
            wide_requantize=True,
            gemm_reads_out=True,
        ),
        # As many tables as there can be, on a bus of 64 bits; with one, `table` has no bits.
        _TINY.replace("tables", requantize_lanes=4, tables=8),
        # More inputs than outputs, and the other way round: depthwise mode is not there.
        _TINY.replace("deep", block_in=16, block_out=8, depthwise_taps=0, wgt_bytes=16384),
        _TINY.replace("broad", block_in=8, block_out=16, depthwise_taps=0, wgt_bytes=16384),
        # More results than inputs, and three rows of inputs in a product.
        _TINY.replace("results", out_bytes=8192, gemm_reads_out=True),
        # Weights of 4 bits in memory; words of both widths follow each other.
        _TINY.replace("narrow", narrow_weights=True, multiplier_style="packed"),
        # No marks are written; one table.
        _TINY.replace(
            "bare",
            batch=2,
            block_in=4,
            block_out=4,
            depthwise_taps=0,
            counters=False,
            tables=1,
        ),
        # Buffers far beyond VTA's: instructions of 512 bits.
        _TINY.replace(
            "large",
            inp_bytes=1 << 19,
            wgt_bytes=1 << 21,
            acc_bytes=1 << 20,
            out_bytes=1 << 18,
            par_bytes=1 << 16,
            gemm_uop_bytes=1 << 16,
            alu_uop_bytes=1 << 16,
        ),
    )
}
"""Variants that are not shipped, for what no shipped one has."""


def every_variant() -> dict[str, Variant]:
    """Shipped variants and those for tests only, by name."""
    return {name: load_variant(name) for name in shipped_variants()} | EXTRA_VARIANTS


def mismatch(case: RandomProgram, launch: Launch, outcome: Outcome, expected: bytes) -> str | None:
    """What is wrong with an outcome, in words; None where it is right."""
    where = f"seed {case.seed}:"
    if outcome.error is not ErrorCode.NONE:
        return f"{where} {outcome.error.name} {outcome.unit.name} {outcome.instruction}"
    if outcome.memory != expected:
        pairs = enumerate(zip(outcome.memory, expected, strict=True))
        first = next(i for i, (found, wanted) in pairs if found != wanted)
        return f"{where} memory differs from byte {first:#x} on"
    wrong = wrong_books(launch, outcome.profile)
    return f"{where} {wrong}" if wrong else None


def wrong_books(launch: Launch, profile: Profile) -> str | None:
    """Every cycle of every unit is in one class; work and marks are the program's.

    A machine without counters reads zeros, and writes no marks.
    """
    if not launch.program.variant.units.counters:
        counted = [unit.work + sum(unit.classes.values()) for unit in profile.units.values()]
        return "a machine without counters counted" if any(counted) or profile.marks else None
    for unit, counters in profile.units.items():
        if sum(counters.classes.values()) != profile.cycles:
            return f"the cycles of {unit.name} do not add up"
    instructions = launch.program.instructions
    # FINISH is not dispatched: it stays in FETCH.
    if profile.units[Unit.FETCH].work != len(instructions) - 1:
        return "FETCH counted other instructions than the program has"
    marked = [
        (index, item.tag, item.unit)
        for index, item in enumerate(instructions)
        if item.opcode is not Opcode.FINISH and item.mark
    ]
    if sorted((mark.instruction, mark.tag, mark.unit) for mark in profile.marks) != marked:
        return "other marks than the program's"
    for mark in profile.marks:
        if not sum(mark.counters.classes.values()) == mark.cycle <= (profile.cycles or 0):
            return f"the cycles of the mark of instruction {mark.instruction} do not add up"
    return None


@dataclass
class RandomRun:
    """Programs that ran on a variant, and what came of them.

    Attributes
    ----------
    passed
        Programs without mismatch; seeds count up from the first.
    mismatches
        A sentence each.
    cycles, simulation_seconds
        Of the machine, and of the simulator between start and interrupt.
    build_seconds
        Of the simulator; 0 where it was found built.
    wall_seconds
        Everything: drawing, both simulations, comparison, coverage.
    coverage
        Goals by name, how many programs met each.
    """

    variant: str
    passed: int = 0
    mismatches: list[str] = field(default_factory=list)
    cycles: int = 0
    simulation_seconds: float = 0.0
    build_seconds: float = 0.0
    wall_seconds: float = 0.0
    coverage: dict[str, int] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """Goals that no program met."""
        return [goal for goal, count in self.coverage.items() if not count]

    @property
    def cycles_per_second(self) -> float:
        """Simulated cycles per second of the simulator."""
        return self.cycles / self.simulation_seconds if self.simulation_seconds else 0.0

    def check(self) -> None:
        """Raise AssertionError for mismatches."""
        assert not self.mismatches, "\n".join(self.mismatches[:10])

    def __str__(self) -> str:
        met = sum(count > 0 for count in self.coverage.values())
        return (
            f"{self.variant}: {self.passed} programs passed, {len(self.mismatches)} did not; "
            f"{met} of {len(self.coverage)} goals met; {self.cycles} cycles in "
            f"{self.simulation_seconds:.1f} s, {self.wall_seconds:.0f} s in all"
        )


def run_random_programs(
    device: RtlDevice,
    seeds: Sequence[int],
    *,
    preset: str = "jitter",
    length: int = 24,
    ledger: Path | None = None,
    progress: Callable[[RandomRun], None] | None = None,
) -> RandomRun:
    """Run the programs of `seeds`, `CHUNK` per simulator process, and compare all memory.

    With `ledger`, a file, what was done stays known: a later call for more of the same seeds goes
    on behind it. `progress` is called after every chunk.
    """
    run = _read(ledger) or RandomRun(device.variant.name)
    coverage = Coverage(device.variant)
    coverage.counts.update(run.coverage)
    if not run.mismatches:
        seeds = seeds[run.passed :]
    began = time.perf_counter() - run.wall_seconds
    for start in range(0, len(seeds), CHUNK):
        chunk = seeds[start : start + CHUNK]
        cases = [random_program(device.variant, seed, length=length) for seed in chunk]
        launches = [placed(case, memory_model(preset, case.seed)) for case in cases]
        built = device.build(max(launch.size_bytes for launch in launches))
        run.build_seconds = max(run.build_seconds, built.build_seconds)
        outcomes = device.launch_each(launches)
        memories = expected_memories(launches)
        told = [
            mismatch(*all_of) for all_of in zip(cases, launches, outcomes, memories, strict=True)
        ]
        run.mismatches += [text for text in told if text is not None]
        run.passed += told.count(None)
        run.cycles += sum(outcome.profile.cycles or 0 for outcome in outcomes)
        run.simulation_seconds += sum(outcome.profile.wall_seconds for outcome in outcomes)
        run.coverage = dict(coverage.add_all(case.program for case in cases).counts)
        run.wall_seconds = time.perf_counter() - began
        if ledger is not None and not run.mismatches:
            ledger.parent.mkdir(parents=True, exist_ok=True)
            ledger.write_text(json.dumps(asdict(run)))
        if progress is not None:
            progress(run)
    return run


def ledger_of(device: RtlDevice) -> Path:
    """Where the progress of a long run is kept: a file of its own for every state of the sources.

    The name of a built simulator stands for the Verilog and the harness.
    """
    goals = ROOT / "bench" / "correctness"
    sources = [*(ROOT / "isa").rglob("*.py"), *goals.glob("coverage*.py")]
    key = hashlib.sha256(device.build().program.parent.name.encode())
    for path in sorted(sources):
        key.update(path.read_bytes())
    folder = ROOT / ".daedal" / "random"
    return folder / f"{device.variant.name}-{key.hexdigest()[:16]}.json"


def _read(ledger: Path | None) -> RandomRun | None:
    """What an earlier call left, if it did."""
    if ledger is None or not ledger.is_file():
        return None
    return RandomRun(**json.loads(ledger.read_text()))
