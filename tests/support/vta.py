"""Running translated VTA programs on a device, through the one driver."""

from dataclasses import dataclass

from daedal.isa.profile import Profile
from daedal.isa.protocols import Device
from daedal.isa.vta.dump import VtaSegment
from daedal.isa.vta.translate import Translation
from daedal.runtime.driver import LoadedProgram


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
