"""The cycle model beside the RTL: what differs between two profiles of one launch."""

import hashlib
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np

from daedal.isa.profile import Profile
from daedal.isa.random_programs import RandomProgram
from daedal.isa.table import Opcode
from daedal.sim.rtl.launch import Launch
from daedal.sim.timing.count import count_cycles

__all__ = ["differences", "marked", "model_profile", "rotating_seeds"]

ROOT = Path(__file__).resolve().parents[2]


def model_profile(launch: Launch, *, form: str = "machine") -> Profile:
    """A launch on the cycle model."""
    memory = np.frombuffer(bytearray(launch.memory), dtype=np.uint8)
    return count_cycles(
        launch.program, launch.bases, memory, launch.timing, with_marks=launch.with_marks, form=form
    ).profile


def differences(model: Profile, rtl: Profile) -> list[str]:
    """A sentence for everything that the two profiles count differently."""
    found = []
    for name in ("cycles", "beats_read", "beats_written"):
        ours, theirs = getattr(model, name), getattr(rtl, name)
        if ours != theirs:
            found.append(f"{name}: {ours}, not {theirs}")
    for unit, counters in rtl.units.items():
        if model.units[unit] != counters:
            found.append(f"{unit.name}: {model.units[unit]}, not {counters}")
    for ours, theirs in zip(model.marks, rtl.marks, strict=True):
        if ours != theirs:
            found.append(f"mark of instruction {theirs.instruction}: {ours}, not {theirs}")
            break
    return found


def marked(case: RandomProgram) -> RandomProgram:
    """Every instruction leaves a record."""
    instructions = tuple(
        item if item.opcode is Opcode.FINISH else item.replace(mark=1, tag=index)
        for index, item in enumerate(case.program.instructions)
    )
    return replace(case, program=replace(case.program, instructions=instructions))


def rotating_seeds(count: int) -> range:
    """Other seeds for every commit."""
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    head = result.stdout.strip() or "no repository"
    first = int(hashlib.sha256(head.encode()).hexdigest()[:8], 16) % 100_000
    print(f"seeds {first} to {first + count - 1}")
    return range(first, first + count)
