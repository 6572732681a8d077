"""Memory of a device without a machine: where regions lie, and that they keep apart."""

import numpy as np

from daedal.isa.variant import load_variant
from daedal.sim.host_memory import HostMemory


def test_regions_begin_at_pages_and_do_not_overlap() -> None:
    memory = HostMemory(load_variant("tiny"))
    sizes = [1, 0, 4096, 4097, 20]
    addresses = [memory.alloc(size) for size in sizes]
    assert all(address % 4096 == 0 for address in addresses)
    pages = np.diff(addresses) // 4096
    assert pages.tolist() == [1, 1, 1, 2]
    for number, (address, size) in enumerate(zip(addresses, sizes, strict=True)):
        memory.write(address, bytes([number + 1] * size))
    for number, (address, size) in enumerate(zip(addresses, sizes, strict=True)):
        assert memory.read(address, size) == bytes([number + 1] * size)
    assert memory.read(addresses[3] + 4096, 3) == b"\x04\x00\x00"


def test_growth_leaves_views_of_earlier_memory_valid() -> None:
    """A traceback may hold a view of memory after a failed launch; allocating goes on."""
    memory = HostMemory(load_variant("tiny"), 1)
    first = memory.alloc(3)
    memory.write(first, b"abc")
    view = memory._memory[first:]
    second = memory.alloc(5000)
    memory.write(second + 4999, b"z")
    assert memory.read(first, 3) == view[:3].tobytes() == b"abc"
    assert memory.read(second + 4999, 1) == b"z"
