"""RTL devices for tests: simulators are built once per session and shared between workers."""

from collections.abc import Sequence

from daedal.isa.latencies import PAGE_BYTES
from daedal.isa.memory_model import MemoryModel, memory_model
from daedal.isa.random_programs import RandomProgram
from daedal.isa.variant import Variant
from daedal.native.caches.place import cache_folder
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.rtl.device import RtlDevice
from daedal.sim.rtl.launch import Launch

__all__ = ["CACHE", "expected_memories", "placed", "rtl_device"]

CACHE = cache_folder("rtl")


def rtl_device(variant: Variant, simulator: str | None = None, **options) -> RtlDevice:
    """A device whose simulators are kept between sessions: they are addressed by content.

    The machine checks its own contracts, as in all simulations of the tests: one build serves all.
    """
    return RtlDevice(variant, simulator=simulator, cache_dir=CACHE, assertions=True, **options)


def placed(case: RandomProgram, timing: MemoryModel | None = None, **options) -> Launch:
    """Place a random program's regions as the functional device would."""
    functional = FunctionalDevice(case.program.variant)
    bases = [functional.alloc(size) for size in case.program.region_bytes]
    contents = {0: case.program.constants, **case.contents}
    end = max(base + size for base, size in zip(bases, case.program.region_bytes, strict=True))
    # A page of other bytes behind the regions tells of writes beyond them.
    memory = bytearray(end) + bytes([0xA5]) * PAGE_BYTES
    for number, data in contents.items():
        memory[bases[number] : bases[number] + len(data)] = data
    timing = timing if timing is not None else memory_model("jitter", case.seed)
    return Launch(case.program, tuple(bases), bytes(memory), timing=timing, **options)


def expected_memories(launches: Sequence[Launch]) -> list[bytes]:
    """Memory after each launch on one functional device: scratchpads keep their contents."""
    size = max(len(launch.memory) for launch in launches)
    device = FunctionalDevice(launches[0].program.variant, memory_bytes=size)
    memories = []
    for launch in launches:
        device.write(0, launch.memory)
        device.launch(launch.program, launch.bases)
        memories.append(device.read(0, len(launch.memory)))
    return memories
