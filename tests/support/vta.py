"""Upstream VTA programs for tests: the cases in ../shared, and running translations on a device."""

import json
from dataclasses import dataclass
from pathlib import Path

from daedal.isa.profile import Profile
from daedal.isa.protocols import Device
from daedal.isa.vta.dump import VtaProgram, VtaSegment
from daedal.isa.vta.stream import VtaQueue
from daedal.isa.vta.translate import Translation
from daedal.runtime.driver import LoadedProgram

__all__ = ["VtaRun", "case_names", "load_case", "run_translation"]

_CASES = Path(__file__).resolve().parent.parent.parent.parent / "shared" / "vta-streams"


def case_names() -> list[str]:
    """Names of the cases beside the repository; one that does not exist where there are none."""
    return sorted(path.parent.name for path in _CASES.glob("*/insn.bin")) or ["absent"]


def load_case(folder: Path) -> VtaProgram:
    """A case, with the tokens that the run before it left."""
    tokens = json.loads((folder / "desc.json").read_text())["initial_tokens"]
    pairs = {}
    for name, count in tokens.items():
        giver, taker = (VtaQueue[unit.upper()] for unit in name.split("_to_"))
        pairs[giver, taker] = count
    return VtaProgram.from_folder(folder, pairs)


@dataclass(frozen=True)
class VtaRun:
    """What a run left in each segment that the program moves, and its profile."""

    contents: tuple[tuple[VtaSegment, bytes], ...]
    profile: Profile

    def mismatches(self) -> list[str]:
        """Segments that do not hold what they should after the run."""
        return [
            f"{segment.role} at {segment.address:#x}"
            for segment, data in self.contents
            if data != (segment.data if segment.after is None else segment.after)
        ]


def run_translation(translation: Translation, device: Device) -> VtaRun:
    """Fill the regions with the segments, launch, read the segments back."""
    loaded = LoadedProgram.place(translation.program, device)
    for place in translation.places:
        loaded.write_region(place.base, place.segment.data, place.offset_bytes)
    profile = device.launch(translation.program, loaded.bases)
    contents = []
    for place in translation.places:
        address = loaded.bases[place.base] + place.offset_bytes
        contents.append((place.segment, device.read(address, len(place.segment.data))))
    return VtaRun(tuple(contents), profile)
