"""Where tensors lie in external memory: regions by base address register, offsets by lifetime."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from daedal.compiler.codegen.segment import Segment
from daedal.isa.table import BASES

__all__ = ["MemoryPlan", "Place", "plan_memory"]

ALIGNMENT_BYTES = 64
"""Tensors begin at a whole beat of the widest bus."""

CONSTANTS, INPUTS, OUTPUTS, WORKSPACE = range(len(BASES))


@dataclass(frozen=True)
class Place:
    """A tensor's region (number of the base address register), offset above it, and size."""

    base: int
    offset_bytes: int
    size_bytes: int

    @property
    def end_bytes(self) -> int:
        """One past the last byte, above the base."""
        return self.offset_bytes + self.size_bytes


@dataclass(frozen=True)
class MemoryPlan:
    """Places by tensor name, and the size of each region."""

    places: Mapping[str, Place]
    region_bytes: tuple[int, int, int, int]


def aligned(size_bytes: int) -> int:
    """Rounded up to the alignment of tensors."""
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def plan_memory(
    segments: Sequence[Segment],
    constants: Mapping[str, int],
    inputs: Mapping[str, int],
    outputs: Mapping[str, int],
) -> MemoryPlan:
    """Give every tensor of `segments` a place; the mappings say sizes in bytes.

    What is neither constant, input nor output goes to the workspace, where tensors whose lifetimes
    (in segments) do not meet share bytes: first fit in order of definition.
    """
    places: dict[str, Place] = {}
    sizes = [0, 0, 0, 0]
    for base, group in ((CONSTANTS, constants), (INPUTS, inputs), (OUTPUTS, outputs)):
        for name, size in group.items():
            places[name] = Place(base, sizes[base], size)
            sizes[base] += aligned(size)
    lives = _lifetimes(segments, places)
    placed: list[tuple[int, int, Place]] = []
    for name, (first, last, size) in lives.items():
        clashing = [place for a, b, place in placed if a <= last and first <= b]
        place = Place(WORKSPACE, _first_fit(clashing, size), size)
        placed.append((first, last, place))
        places[name] = place
        sizes[WORKSPACE] = max(sizes[WORKSPACE], aligned(place.end_bytes))
    return MemoryPlan(places, (sizes[0], sizes[1], sizes[2], sizes[3]))


def _lifetimes(
    segments: Sequence[Segment], placed: Mapping[str, Place]
) -> dict[str, tuple[int, int, int]]:
    """First segment, last segment and size of every tensor that has no place yet."""
    lives: dict[str, tuple[int, int, int]] = {}
    for number, segment in enumerate(segments):
        for name, size in segment.tensors.items():
            if name not in placed:
                first, _, known = lives.get(name, (number, number, size))
                assert known == size, f"{name!r} has {known} bytes here and {size} there"
                lives[name] = (first, number, size)
    return lives


def _first_fit(clashing: Iterable[Place], size_bytes: int) -> int:
    offset = 0
    for place in sorted(clashing, key=lambda item: item.offset_bytes):
        if place.offset_bytes - offset >= aligned(size_bytes):
            break
        offset = max(offset, aligned(place.end_bytes))
    return offset
