"""Where faults are planted: areas of the project, how many faults in which files, and which tests
judge them beside those that mirror the file.

Faults are chosen by hash, not from a stream of random numbers: adding a fault to a file, or
removing one, does not change the choice of the others, so their results remain valid.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.changes.mutation.faults import Fault, faults_of

__all__ = ["AREAS", "Area", "area_of", "choose", "files_of"]


ROOMS = ("alu", "bus", "control", "gemm", "issue", "load", "memory", "parts", "primitives", "store")
"""Folders of hw/ with what becomes Verilog."""


@dataclass(frozen=True)
class Area:
    """A part of the project.

    Attributes
    ----------
    name : for the report, and for ``--only``.
    counts : glob of files -> faults in each of them; of several globs the first that fits counts.
    tests : folders and files under ``tests/`` that may judge any fault of the area, cheapest
        first; they come after the tests that mirror the file.
    hardware : whether emitted Verilog tells equivalents.
    compiled : whether the area's functions become machine code, so that no trace sees them run.
    """

    name: str
    counts: dict[str, int]
    tests: tuple[str, ...]
    hardware: bool = False
    compiled: bool = False


AREAS = (
    Area(
        "isa",
        {
            "isa/numerics.py": 8,
            "isa/verifier.py": 8,
            "isa/tokens.py": 5,
            "isa/instruction.py": 4,
            "isa/microcode.py": 4,
            "isa/semantics.py": 8,
            "isa/run_registers.py": 4,
            "isa/docs.py": 0,
            "common/markdown.py": 0,
            "isa/*.py": 1,
            "artifact/*.py": 1,
            "common/*.py": 1,
            "compiler/integer/*.py": 1,
        },
        (
            "isa",
            "artifact",
            "common",
            "compiler/integer",
            "compiler/link",
            "sim/functional",
            "runtime/devices",
            "runtime",
            "test_tour.py",
        ),
    ),
    Area(
        "compiler",
        {
            "compiler/codegen/*.py": 1,
            "compiler/link/**/*.py": 1,
            "compiler/graph/passes/**/*.py": 1,
            "compiler/quantization/**/*.py": 1,
            "compiler/schedule/*.py": 1,
            "compiler/tir/*.py": 1,
        },
        (
            "compiler/test_equality.py",
            "compiler/link/test_link.py",
            "compiler/graph/test_passes.py",
            "compiler/test_pipeline.py",
            "compiler/test_model.py",
            "compiler/test_random_schedules.py",
            "test_tour.py",
        ),
    ),
    Area("timing", {"sim/timing/*.py": 1}, ("sim/timing",), compiled=True),
    Area(
        "functional",
        {"sim/functional/*.py": 2},
        ("sim/functional", "isa/test_vta_cases.py", "test_tour.py"),
        compiled=True,
    ),
    Area(
        "runtime",
        {
            "runtime/profiler/page*.py": 0,
            "runtime/profiler/legend.py": 0,
            "runtime/devices/*.py": 2,
            "runtime/profiler/*.py": 1,
            "runtime/*.py": 2,
        },
        ("runtime", "daedal/test_checking.py", "test_tour.py"),
    ),
    Area(
        "hw",
        {
            "hw/emit.py": 0,
            "hw/family.py": 0,
            "hw/*.py": 1,
            **{f"hw/{room}/*.py": 1 for room in ROOMS},
        },
        (
            "hw",
            "sim/rtl/test_random_programs.py",
            "sim/rtl/test_faults.py",
            "sim/trace/test_trace.py",
        ),
        hardware=True,
    ),
)
"""All areas. The counts sum to more than 200 faults."""


def files_of(area: Area, root: Path) -> dict[str, int]:
    """The area's files and how many faults each gets."""
    counts = dict[str, int]()
    for pattern, count in area.counts.items():
        for path in sorted(root.glob(pattern)):
            counts.setdefault(path.relative_to(root).as_posix(), count)
    return {path: count for path, count in counts.items() if count}


def area_of(path: str, root: Path) -> Area:
    """The area of a file, also of one that gets no faults."""
    return next(a for a in AREAS if any(root / path in root.glob(item) for item in a.counts))


def choose(area: Area, root: Path, seed: int) -> list[Fault]:
    """The faults of the area that `seed` chooses."""
    chosen = list[Fault]()
    for path, count in files_of(area, root).items():
        faults = faults_of(path, (root / path).read_text(encoding="utf-8"))
        chosen += _ranked(faults, seed)[:count]
    return chosen


def _ranked(faults: Iterable[Fault], seed: int) -> list[Fault]:
    """All operators in turn, each with its faults in an order that only `seed` and keys give."""
    families = defaultdict[str, list[Fault]](list)
    for fault in sorted(faults, key=lambda fault: _rank(seed, fault.key)):
        families[fault.operator].append(fault)
    turns = [
        (turn, _rank(seed, f"{fault.path} {operator}"), fault)
        for operator, family in families.items()
        for turn, fault in enumerate(family)
    ]
    return [fault for _, _, fault in sorted(turns, key=lambda item: item[:2])]


def _rank(seed: int, text: str) -> str:
    return hashlib.sha256(f"{seed} {text}".encode()).hexdigest()
