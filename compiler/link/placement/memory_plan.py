"""Plans external memory: assigns tensors to regions (base registers) and offsets by lifetime."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from daedal.compiler.codegen.segment import Segment
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

    `workspace_bound_bytes` is a lower bound for any plan of the workspace: the most bytes live in
    one layer. A byte is live from the layer that writes it to the last layer that reads it.
    """

    places: Mapping[str, Place]
    region_bytes: tuple[int, int, int, int]
    workspace_bound_bytes: int = 0


_Life = tuple[int, int]
"""First and last step that touch something."""


@dataclass
class _Group:
    """Tensors at fixed distances: offset and size by name."""

    members: dict[str, tuple[int, int]]

    @property
    def size_bytes(self) -> int:
        return max(offset + size for offset, size in self.members.values())

    def bundle(self, lives: Mapping[str, _Life]) -> Bundle:
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
                first, last = min(life[0] for life in touching), max(life[1] for life in touching)
                pieces.append(Piece(begin, end - begin, first, last))
        return tuple(pieces)


def plan_memory(
    steps: Sequence[Sequence[Segment]],
    constants: Mapping[str, int],
    inputs: Mapping[str, int],
    outputs: Mapping[str, int],
    aliases: Mapping[str, Alias] | None = None,
) -> MemoryPlan:
    """Give every tensor a place; the mappings hold sizes in bytes.

    `steps` are the segments in their order; those of one step run at the same time. Tensors that
    are not constants, inputs or outputs go to the workspace. There, tensors whose live ranges (in
    steps) do not overlap can share bytes (`packing`). Tensors in one group of
    `aliases` keep their offsets. A group that contains an input or output lies in the region of
    that tensor.
    """
    lives = _lifetimes(steps)
    aliases = aliases or {}
    sizes = {**_sizes(steps), **constants, **inputs, **outputs}
    groups = _groups(sizes, aliases)
    places: dict[str, Place] = {}
    used = [0] * len(BASES)
    for base, names in ((CONSTANTS, constants), (INPUTS, inputs), (OUTPUTS, outputs)):
        for name in names:
            if name not in places:
                group = groups.pop(aliases.get(name, Alias(name, 0)).group)
                places.update(_places(group, base, used[base]))
                used[base] += aligned(group.size_bytes)
    bundles = [group.bundle(lives) for group in groups.values()]
    for group, offset in zip(groups.values(), pack(bundles), strict=True):
        places.update(_places(group, WORKSPACE, offset))
        used[WORKSPACE] = max(used[WORKSPACE], aligned(offset + group.size_bytes))
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


def _lifetimes(steps: Sequence[Sequence[Segment]]) -> dict[str, _Life]:
    """First and last step that use each tensor."""
    lives: dict[str, _Life] = {}
    for number, segments in enumerate(steps):
        for segment in segments:
            for name in segment.tensors:
                first, _ = lives.get(name, (number, number))
                lives[name] = first, number
    return lives


def _sizes(steps: Sequence[Sequence[Segment]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for segment in chain.from_iterable(steps):
        for name, size in segment.tensors.items():
            known = sizes.setdefault(name, size)
            assert known == size, f"{name!r} has {known} bytes here and {size} there"
    return sizes
