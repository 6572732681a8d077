"""The processor that machine code is compiled for: its name and features in LLVM's terms."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import llvmlite.binding as llvm

__all__ = ["Cpu", "host_cpu", "model_name"]


@dataclass(frozen=True)
class Cpu:
    """A processor.

    Attributes
    ----------
    triple
        Architecture and system, such as ``x86_64-unknown-linux-gnu``.
    name
        LLVM's name of the processor, such as ``znver4``.
    features
        Names of its features beyond the base architecture, such as ``avx512vnni``.
    lacking
        Names of features it lacks. A virtual machine may hide features that `name` implies.
    """

    triple: str
    name: str
    features: frozenset[str]
    lacking: frozenset[str] = frozenset()

    @property
    def feature_text(self) -> str:
        """Both in LLVM's form, each sorted."""
        there = [f"+{name}" for name in sorted(self.features)]
        return ",".join([*there, *(f"-{name}" for name in sorted(self.lacking))])

    def without(self, names: Collection[str]) -> "Cpu":
        """The same processor without some features and without those that depend on them."""
        missing = frozenset(names)
        return replace(self, features=self.features - missing, lacking=self.lacking | missing)


@lru_cache(maxsize=1)
def host_cpu() -> Cpu:
    """The processor that this process runs on."""
    features = llvm.get_host_cpu_features()
    return Cpu(
        triple=llvm.get_process_triple(),
        name=llvm.get_host_cpu_name(),
        features=frozenset(name for name, there in features.items() if there),
        lacking=frozenset(name for name, there in features.items() if not there),
    )


def model_name() -> str:
    """What the system calls this processor, in ASCII; empty where it does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="ignore")
    except OSError:
        return ""
    found = (line.partition(":")[2] for line in text.splitlines() if line.startswith("model name"))
    return " ".join(next(found, "").split())
