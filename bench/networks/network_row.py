"""`NetworkRow`: measurements of a whole network on one variant, and the bars it must meet."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from bench.changes.ledger_table import read_ledger
from bench.figures import Figures

__all__ = ["Effort", "NetworkRow", "Verdict"]

CYCLE_BARS = {
    "resnet18": 6_750_000,
    "mobilenet_v1": 2_700_000,
    "mobilenet_v2": 2_150_000,
}
"""In one launch on `vta`."""
COMPILE_BARS = {"resnet50": 8.0}
"""Seconds of processor time, the median."""
SHARE_BAR = 0.99
"""Of the multiply-accumulates, on the accelerator."""
MEMORY_BAR = 1.1
"""Peak memory over its lower bound, where the ledger does not have it."""


@dataclass(frozen=True)
class Verdict:
    """A figure beside its bar."""

    what: str
    found: str
    bar: str
    passed: bool


@dataclass(frozen=True)
class Effort:
    """What a network takes: layers, cycles on the cycle model, bytes that cross the bus."""

    layers: int = 0
    cycles: int = 0
    bytes_moved: int = 0


@dataclass(frozen=True)
class NetworkRow:
    """What was measured of one network.

    Attributes
    ----------
    error : why it was not measured; then nothing else is.
    macs, accelerator_macs : multiply-accumulates of the model, and those that are not the host's.
    fused, unfused : all launches together, as they are and with every operator a layer of its own.
    rtl_cycles : of all launches together, on the native RTL.
    bytes_checked, bytes_wrong : of the results of all layers on the functional simulator, against
        the integer reference.
    compile_seconds, calibration_seconds : processor time of each compilation, and what the
        calibration kernel took before it.
    peak_bytes, bound_bytes : memory of the plan for activations, and the largest live set.
    layers : the profile of every layer.
    host : node, operator and reason of all that the host runs between quantized tensors.
    """

    name: str
    title: str
    variant: str
    error: str = ""
    macs: int = 0
    accelerator_macs: int = 0
    launches: int = 0
    instructions: int = 0
    fused: Effort = Effort()
    unfused: Effort = Effort()
    rtl_cycles: int | None = None
    bytes_checked: int = 0
    bytes_wrong: int = 0
    compile_seconds: tuple[float, ...] = ()
    calibration_seconds: tuple[float, ...] = ()
    peak_bytes: int = 0
    bound_bytes: int = 0
    macs_per_cycle: int = 1
    layers: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    host: tuple[dict[str, str], ...] = ()

    @property
    def cycles(self) -> int:
        """On the cycle model, fused."""
        return self.fused.cycles

    @property
    def accelerator_share(self) -> float:
        """Share of the multiply-accumulates on the accelerator."""
        return self.accelerator_macs / self.macs if self.macs else 0.0

    @property
    def peak_share(self) -> float:
        """Part of the multiplications that the array could have done in these cycles; those with
        padding count, as they do in what others published."""
        return self.accelerator_macs / self.macs_per_cycle / self.cycles if self.cycles else 0.0

    @property
    def roofline_share(self) -> float:
        """Sum of the layers' rooflines, each at most its layer's cycles, over the cycles."""
        total = sum(min(layer["roofline_cycles"], layer["cycles"]) for layer in self.layers)
        return total / self.cycles if self.cycles else 0.0

    @property
    def seconds(self) -> float:
        """Median of the compilations."""
        return float(np.median(self.compile_seconds)) if self.compile_seconds else 0.0

    @property
    def memory_ratio(self) -> float:
        """Peak memory over its lower bound; 1 where nothing has to be kept."""
        return self.peak_bytes / self.bound_bytes if self.bound_bytes else 1.0

    def verdicts(self) -> list[Verdict]:
        """Every bar of this network."""
        if self.error:
            return [Verdict("compiles and runs", self.error, "", False)]
        return [
            Verdict(
                "MACs on the accelerator",
                f"{self.accelerator_share:.2%}",
                f"{SHARE_BAR:.0%}",
                self.accelerator_share >= SHARE_BAR,
            ),
            Verdict(
                "bytes unlike the reference",
                f"{self.bytes_wrong:,} of {self.bytes_checked:,}",
                "0",
                self.bytes_wrong == 0 and self.bytes_checked > 0,
            ),
            self._memory(),
            *self._yardsticks(),
        ]

    def _memory(self) -> Verdict:
        """As much as the ledger has, which layers at the same time may need; where it has nothing,
        as much as one layer after the other needs, and a little more."""
        entry = self._entry
        if entry is None or entry.memory_bytes is None:
            ratio = self.memory_ratio
            what = "peak memory over the lower bound"
            return Verdict(what, f"{ratio:.3f}", f"{MEMORY_BAR}", ratio <= MEMORY_BAR)
        listed = entry.memory_bytes
        passed = self.peak_bytes == listed
        return Verdict(
            "peak memory, as the ledger has it", f"{self.peak_bytes:,}", f"{listed:,}", passed
        )

    @property
    def _entry(self) -> Figures | None:
        return read_ledger().get(f"{self.name}.{self.variant}")

    def _yardsticks(self) -> Iterator[Verdict]:
        """The ledger's cycles, bars that some networks have, and the RTL's cycles where it ran."""
        entry = self._entry
        if entry is not None:
            found, passed = f"{self.cycles:,}", self.cycles == entry.cycles
            yield Verdict("cycles, as the ledger has them", found, f"{entry.cycles:,}", passed)
        if self.name in CYCLE_BARS and self.variant == "vta":
            bar = CYCLE_BARS[self.name]
            found = f"{self.cycles:,} in {self.launches}"
            passed = self.cycles <= bar and self.launches == 1
            yield Verdict("cycles in one launch", found, f"{bar:,}", passed)
        if self.name in COMPILE_BARS:
            seconds = COMPILE_BARS[self.name]
            found, passed = f"{self.seconds:.1f}", self.seconds <= seconds
            yield Verdict("seconds to compile", found, f"{seconds:.0f}", passed)
        if self.rtl_cycles is not None:
            yield Verdict(
                "cycles on the RTL, as the model says",
                f"{self.rtl_cycles:,}",
                f"{self.cycles:,}",
                self.rtl_cycles == self.cycles,
            )

    @property
    def passed(self) -> bool:
        """Whether every bar holds."""
        return all(verdict.passed for verdict in self.verdicts())

    def to_json(self) -> dict[str, Any]:
        """Plain data, with what follows from it."""
        derived = (
            "cycles",
            "accelerator_share",
            "peak_share",
            "roofline_share",
            "seconds",
            "memory_ratio",
        )
        return {
            **asdict(self),
            **{name: getattr(self, name) for name in derived},
            "verdicts": [asdict(verdict) for verdict in self.verdicts()],
            "passed": self.passed,
        }
