"""The `Device` protocol: memory and launches, the same for simulators and boards.

A driver written once (`runtime.driver`) runs on every one of them.
"""

from collections.abc import Sequence
from typing import Protocol

from daedal.isa.latencies import PAGE_BYTES
from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.isa.variant import Variant

__all__ = ["Device", "next_page"]


def next_page(address: int) -> int:
    """The first address at or after `address` at which a page begins, as every allocation does."""
    return -(-address // PAGE_BYTES) * PAGE_BYTES


class Device(Protocol):
    """A machine of one variant with external memory. Addresses are bytes.

    `launch` runs a program whose four regions the caller has placed (`bases`) and filled; the
    device places the instructions itself. Scratchpads keep their contents, so a launch that follows
    one of the same program leaves out its setup. It raises ArtifactError for a program of another
    variant and DeviceError when the machine ends in an error status.
    """

    @property
    def name(self) -> str:
        """Short name for reports: functional, rtl, ..."""
        ...

    @property
    def variant(self) -> Variant:
        """The machine's variant."""
        ...

    def alloc(self, size_bytes: int) -> int:
        """Address of a new region, aligned to a page."""
        ...

    def write(self, address: int, data: bytes) -> None:
        """Copy into memory."""
        ...

    def read(self, address: int, size_bytes: int) -> bytes:
        """Copy out of memory."""
        ...

    def launch(self, program: Program, bases: Sequence[int]) -> Profile:
        """Run to the interrupt."""
        ...
