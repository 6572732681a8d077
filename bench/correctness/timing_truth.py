"""Cache of what the RTL counts for a launch, so that each version of it is simulated only once.

A record is named by a hash of the Verilog, the memory model in HDL, the launch and its preset.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from daedal.common.files import write_atomically
from daedal.isa.profile import MarkRecord, Profile, UnitCounters
from daedal.isa.registers import CycleClass
from daedal.isa.table import Unit
from daedal.sim.rtl.device import RtlDevice
from daedal.sim.rtl.launch import Launch
from daedal.sim.rtl.verilog import kept_verilog

__all__ = ["RtlTruth"]

_HDL = Path(__file__).resolve().parents[2] / "sim" / "rtl" / "hdl" / "dram.v"
_CHUNK_BYTES = 1 << 28


class RtlTruth:
    """Profiles of launches on the RTL of one variant, simulated or from `folder`."""

    def __init__(self, device: RtlDevice, cache: Path, folder: Path) -> None:
        self._device = device
        self._folder = folder
        verilog = kept_verilog(device.variant, cache, lambda _sentence: None)
        self._machine = hashlib.sha256(verilog.encode() + _HDL.read_bytes()).digest()

    def profiles(self, launches: Sequence[Launch]) -> list[Profile]:
        """One profile per launch; those that are missing are simulated in one process or few."""
        paths = [self._folder / f"{self._key(launch)}.json" for launch in launches]
        missing = [n for n, path in enumerate(paths) if not path.is_file()]
        while missing:
            chunk, size = [], 0
            while missing and (not chunk or size + len(launches[missing[0]].memory) < _CHUNK_BYTES):
                size += len(launches[missing[0]].memory)
                chunk.append(missing.pop(0))
            outcomes = self._device.launch_each([launches[n] for n in chunk])
            for n, outcome in zip(chunk, outcomes, strict=True):
                outcome.check()
                paths[n].parent.mkdir(parents=True, exist_ok=True)
                text = json.dumps(outcome.profile.to_json(), separators=(",", ":"))
                write_atomically(paths[n], text.encode())
        return [_profile(json.loads(path.read_bytes())) for path in paths]

    def _key(self, launch: Launch) -> str:
        digest = hashlib.sha256(self._machine)
        digest.update(launch.program.encode())
        digest.update(launch.memory)
        digest.update(repr((tuple(launch.bases), launch.timing, launch.with_marks)).encode())
        return digest.hexdigest()[:32]


def _counters(data: dict[str, int]) -> UnitCounters:
    return UnitCounters({kind: data[kind.name.lower()] for kind in CycleClass}, data["work"])


def _profile(data: dict[str, Any]) -> Profile:
    return Profile(
        device=data["device"],
        cycles=data["cycles"],
        beats_read=data["beats_read"],
        beats_written=data["beats_written"],
        units={Unit[name.upper()]: _counters(item) for name, item in data["units"].items()},
        marks=tuple(
            MarkRecord(
                tag=mark["tag"],
                unit=Unit[mark["unit"].upper()],
                instruction=mark["instruction"],
                cycle=mark["cycle"],
                counters=_counters(mark["counters"]),
            )
            for mark in data["marks"]
        ),
        wall_seconds=data["wall_seconds"],
    )
