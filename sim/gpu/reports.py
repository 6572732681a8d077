"""Failures, which end a launch, and races, after which it goes on; their sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

__all__ = ["KEPT", "Column", "Failure", "Kind", "Race", "Site", "place_text", "site_text"]


class Failure(IntEnum):
    """Why a launch ended early."""

    NONE = 0
    OUTSIDE = 1
    DIVERGED = 2
    """Threads of a block at different barriers, or some ended."""
    WARP_DIVERGED = 3
    WARP_PARTIAL = 4
    """An operation of 32 threads in a warp of fewer."""
    ENDLESS = 5
    OVERFLOW = 6
    """Of a stack."""
    COPIES = 7
    """Too many copies that have not landed."""
    COPY_SHAPE = 8
    """Sizes or addresses that an asynchronous copy cannot have."""
    ROW_ADDRESS = 9
    """An address that ldmatrix cannot have."""
    GROUP_DIVERGED = 10
    GROUP_PARTIAL = 11
    """An operation of four warps in a group of fewer."""
    PRODUCTS = 12
    """Too many products that are not done."""
    UNFENCED_SUMS = 13
    """A product that is added to sums without a fence since the last group of products."""
    UNFINISHED = 14
    """Products that nothing has waited for."""
    BOX_SHAPE = 15
    """A map or an address that a copy of a box cannot have."""
    BOXES = 16
    """Too many copies of boxes that have not landed."""
    EXPECTED = 17
    """Other bytes than were expected."""
    NOTHING_ARRIVES = 18
    """A wait for bytes that no copy brings."""


class Kind(IntEnum):
    """Accesses that nothing orders."""

    WRITE_WRITE = 0
    WRITE_READ = 1
    READ_WRITE = 2
    READ_IN_FLIGHT = 3
    WRITE_IN_FLIGHT = 4
    UNWRITTEN = 5
    WRITE_UNDER_PRODUCT = 6
    READ_UNFENCED = 7


class Site(IntEnum):
    """Places of accesses that have no number in the kernel's text."""

    COPY = -1
    LDMATRIX = -2
    ENDED = -3
    PRODUCT = -4
    BOX = -5
    ARRIVAL = -6


class Column(IntEnum):
    """Columns of a race as kernels write it."""

    KIND = 0
    ADDRESS = 1
    BLOCK = 2
    THREAD = 3
    SITE = 4
    OTHER_BLOCK = 5
    OTHER_THREAD = 6
    OTHER_SITE = 7


KEPT = 16
"""Races that are kept of each launch."""

_SITES = {
    Site.COPY: "an asynchronous copy",
    Site.LDMATRIX: "ldmatrix",
    Site.ENDED: "the end",
    Site.PRODUCT: "a product of a group of warps",
    Site.BOX: "a copy of a box",
    Site.ARRIVAL: "a count of arriving bytes",
}
_ACCESSES = {
    Kind.WRITE_WRITE: "writes {place}, and so does {other}",
    Kind.WRITE_READ: "reads {place}, which {other} writes",
    Kind.READ_WRITE: "writes {place}, which {other} reads",
    Kind.READ_IN_FLIGHT: "reads {place} while an asynchronous copy of {other} may write it",
    Kind.WRITE_IN_FLIGHT: "writes {place} while an asynchronous copy of {other} may write it",
    Kind.UNWRITTEN: "reads {place}, which no thread of the block has written",
    Kind.WRITE_UNDER_PRODUCT: "writes {place} while a product of {other} may read it",
    Kind.READ_UNFENCED: "reads {place}, which {other} has written without a fence",
}


def site_text(site: int) -> str:
    """A place in a kernel, in words."""
    return f"site {site}" if site >= 0 else _SITES[Site(site)]


def place_text(address: int, shared: int, reach: int) -> str:
    """A byte; addresses within `reach` of the shared memory, or before it, are offsets there."""
    if shared - reach <= address < shared + reach:
        return f"byte {address - shared} of shared memory"
    return f"the byte at {address:#x} in global memory"


@dataclass(frozen=True)
class Race:
    """Two accesses of a byte that nothing orders, at least one of which writes.

    Attributes
    ----------
    address : of the byte.
    block, thread, site : of the access that was found.
    other_block, other_thread, other_site : of the one before it; none where `kind` is UNWRITTEN.
    """

    kind: Kind
    address: int
    block: int
    thread: int
    site: int
    other_block: int
    other_thread: int
    other_site: int

    @staticmethod
    def of(row: Sequence[int]) -> "Race":
        """From a row that kernels wrote."""
        kind, address, block, thread, site, *other = (int(value) for value in row)
        return Race(Kind(kind), address, block, thread, site, *other)

    def sentence(self, place: str) -> str:
        """What happened, where `place` names the byte."""
        other = f"thread {self.other_thread} of block {self.other_block}"
        if self.kind in (Kind.WRITE_WRITE, Kind.WRITE_READ, Kind.READ_WRITE):
            other += f" at {site_text(self.other_site)}"
        access = _ACCESSES[self.kind].format(place=place, other=other)
        return f"thread {self.thread} of block {self.block} at {site_text(self.site)} {access}"
