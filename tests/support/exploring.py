"""Searches of variants for the digits network, scaled down, without workers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from daedal.codesign.cycles.counting import Counter, Network, count_networks
from daedal.codesign.cycles.work import Counts
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant
from tests.support.command_line import Answer, Run

__all__ = ["COUNT", "DIGITS", "OPTIONS", "CheapCycles", "Counting", "contents", "explored", "lines"]

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits_qdq.onnx"
OPTIONS = ("--fpga", "ecp5-85f", "--clock", 100, "--workers", 1)
COUNT = 3

KNOWN: dict[tuple[str, str], Counts | None] = {}
"""Cycles by fingerprint and memory: what was counted by one test is known to the others."""


class Counting:
    """Counts in this process, instead of the workers."""

    def __init__(self) -> None:
        self.counted: list[str] = []
        self.interrupted_after = 1_000
        self.count = counted_once

    @contextmanager
    def counters(
        self, networks: Mapping[str, Network], memory: str, _workers: int
    ) -> Iterator[Counter]:
        def count(variants: Sequence[Variant]) -> Iterator[tuple[int, Counts | None]]:
            for number, variant in enumerate(variants):
                if len(self.counted) == self.interrupted_after:
                    raise KeyboardInterrupt
                self.counted.append(variant.fingerprint)
                yield number, self.count(networks, variant, memory)

        yield count


class CheapCycles:
    """Estimates in no time; what the real ones are worth is tested elsewhere."""

    memory = ""
    """That of the latest ones."""

    def __init__(self, _model: bytes, _on_host: frozenset[str], memory: MemoryModel) -> None:
        CheapCycles.memory = memory.name

    def __call__(self, variant: Variant) -> float:
        if variant.array.batch > 1:
            return math.inf
        return 1e6 / variant.macs_per_cycle + 1e8 / variant.memory.wgt_bytes


def counted_once(networks: Mapping[str, Network], variant: Variant, memory: str) -> Counts | None:
    key = (variant.fingerprint, memory)
    if key not in KNOWN:
        KNOWN[key] = count_networks(networks, variant, memory)
    return KNOWN[key]


def explored(run: Run, folder: Path, *options: object) -> Answer:
    return run("explore", DIGITS, *OPTIONS, "--evaluations", COUNT, "-o", folder, *options)


def contents(folder: Path) -> dict[str, bytes]:
    """All files but those that tell of time, by path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("index.html", "progress.json")
    }


def lines(folder: Path) -> int:
    path = folder / "evaluations.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0
