"""Plans external memory: assigns tensors to regions (base registers) and offsets by lifetime."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

from daedal.compiler.link.placement.lifetimes import Life
from daedal.compiler.link.placement.packing import Bundle, Piece, aligned, largest_live_bytes, pack
from daedal.isa.table import BASES

__all__ = [
    "CONSTANTS",
    "INPUTS",
    "OUTPUTS",
    "WORKSPACE",
    "Alias",
    "MemoryPlan",
    "Place",
    "plan_memory",
]

CONSTANTS, INPUTS, OUTPUTS, WORKSPACE = range(len(BASES))


@dataclass(frozen=True)
class Alias:
    """A tensor begins `offset_bytes` above the start of `group`, which several tensors share."""

    group: str
    offset_bytes: int


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
    """Places by tensor name, and the size of each region.

    Results that no LOAD reads lie behind the workspace: only `Program.observed` stores them.
    `workspace_bound_bytes` is a lower bound for any plan of the workspace: the most bytes live in
    one step. A byte is live from the layer that writes it to the last layer that loads it.
    """

    places: Mapping[str, Place]
    region_bytes: tuple[int, int, int, int]
    workspace_bound_bytes: int = 0

    @property
    def observed_bytes(self) -> tuple[int, int, int, int]:
        """Sizes of the regions with the results that no LOAD reads."""
        constants, inputs, outputs, workspace = self.region_bytes
        ends = (place.end_bytes for place in self.places.values() if place.base == WORKSPACE)
        return constants, inputs, outputs, max(workspace, aligned(max(ends, default=0)))


@dataclass
class _Group:
    """Tensors at fixed distances: offset and size by name."""

    members: dict[str, tuple[int, int]]

    @property
    def size_bytes(self) -> int:
        return max(offset + size for offset, size in self.members.values())

    def is_read(self, lives: Mapping[str, Life]) -> bool:
        """Whether a LOAD reads any of it."""
        return any(name in lives and lives[name].is_read for name in self.members)

    def bundle(self, lives: Mapping[str, Life]) -> Bundle:
        """Runs of bytes with the same live range.

        A byte is live as long as any tensor that contains it.
        """
        cuts = {end for offset, size in self.members.values() for end in (offset, offset + size)}
        pieces = []
        for begin, end in pairwise(sorted(cuts)):
            touching = [
                lives[name]
                for name, (offset, size) in self.members.items()
                if name in lives and offset <= begin and end <= offset + size
            ]
            if touching:
                life = reduce(Life.joined, touching)
                pieces.append(Piece(begin, end - begin, life.first, life.last))
        return tuple(pieces)


def plan_memory(
    lives: Mapping[str, Life],
    sizes: Mapping[str, int],
    constants: Mapping[str, int],
    inputs: Mapping[str, int],
    outputs: Mapping[str, int],
    aliases: Mapping[str, Alias] | None = None,
) -> MemoryPlan:
    """Give every tensor a place; `sizes`, and those of the regions, are in bytes.

    Tensors that are not constants, inputs or outputs go to the workspace if they are loaded or
    stored. There, tensors whose `lives` do not overlap can share bytes (`packing`). Tensors in one
    group of `aliases` keep their offsets. A group that contains an input or output lies in the
    region of that tensor.
    """
    aliases = aliases or {}
    groups = _groups({**sizes, **constants, **inputs, **outputs}, aliases)
    places: dict[str, Place] = {}
    used = [0] * len(BASES)
    for base, names in ((CONSTANTS, constants), (INPUTS, inputs), (OUTPUTS, outputs)):
        for name in names:
            if name not in places:
                group = groups.pop(aliases.get(name, Alias(name, 0)).group)
                places.update(_places(group, base, used[base]))
                used[base] += aligned(group.size_bytes)
    moved = [group for group in groups.values() if not lives.keys().isdisjoint(group.members)]
    kept = [group for group in moved if group.is_read(lives)]
    bundles = [group.bundle(lives) for group in kept]
    for group, offset in zip(kept, pack(bundles), strict=True):
        places.update(_places(group, WORKSPACE, offset))
        used[WORKSPACE] = max(used[WORKSPACE], aligned(offset + group.size_bytes))
    unread = [group for group in moved if not group.is_read(lives)]
    for group, offset in zip(unread, pack([group.bundle(lives) for group in unread]), strict=True):
        places.update(_places(group, WORKSPACE, used[WORKSPACE] + offset))
    return MemoryPlan(places, (used[0], used[1], used[2], used[3]), largest_live_bytes(bundles))


def _groups(sizes: Mapping[str, int], aliases: Mapping[str, Alias]) -> dict[str, _Group]:
    """The group of every tensor. Most tensors form a group of their own, with their name."""
    groups: dict[str, _Group] = {}
    for name, size in sizes.items():
        alias = aliases.get(name, Alias(name, 0))
        groups.setdefault(alias.group, _Group({})).members[name] = alias.offset_bytes, size
    return groups


def _places(group: _Group, base: int, begin: int) -> dict[str, Place]:
    return {
        name: Place(base, begin + offset, size) for name, (offset, size) in group.members.items()
    }
