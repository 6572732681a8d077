"""`EmulatedGpu`: a GPU whose threads are fibers on this processor."""

import ctypes
import math
from collections.abc import Sequence

import numpy as np

from daedal.artifact.gpu_code import EMULATED, Extents, TensorMap
from daedal.common.errors import DeviceError, first_line
from daedal.native.codegen import LoadedLibrary, load_objects
from daedal.native.levels import levels_to_run
from daedal.runtime.gpu_device import Bytes
from daedal.sim.gpu.banks import Place
from daedal.sim.gpu.block import MAX_SHARED_BYTES, MAX_THREADS, Block
from daedal.sim.gpu.boxes import emulated_map
from daedal.sim.gpu.device_memory import DeviceMemory
from daedal.sim.gpu.library import ENTRY, emulator_object
from daedal.sim.gpu.reports import Race
from daedal.sim.gpu.sectors import Requests

__all__ = ["EmulatedGpu"]

_Launch = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_POISONS = (0xFFA5FFA5, 0xA5A5A5A5)
"""Not a number as float16, bfloat16 and float32; and a number that is none of a test's."""


class EmulatedGpu:
    """A `runtime.gpu_device.GpuDevice` that runs kernels at once, block after block.

    Parameters
    ----------
    races : whether a launch fails where nothing orders two accesses. Kernels must announce their
        accesses (`compiler.codegen.gpu.kernel`, ``checked``). Those that do never access memory
        outside of what is allocated, with or without this.
    seed : of the order of the threads between two barriers, and of what undefined memory holds;
        without, threads run by number.
    num_noted : accesses of shared memory in a launch for which bank conflicts are counted, if
        kernels announce them.
    num_requested : accesses of global memory in a launch for which sectors are counted, as well.
    max_passes : passes over the threads of a block after which a launch counts as endless.

    Attributes
    ----------
    races : the first races of the last launch.
    num_races : accesses of bytes in it that raced with one before.
    """

    name = "emulated GPU"

    def __init__(
        self,
        *,
        races: bool = False,
        seed: int | None = None,
        num_noted: int = 0,
        num_requested: int = 0,
        max_passes: int = 1 << 24,
    ) -> None:
        random = None if seed is None else np.random.default_rng(seed)
        poison = _POISONS[0] if random is None else int(random.choice(_POISONS))
        self._memory = DeviceMemory(poison, races)
        self._block = Block(
            self._memory, poison, races, random, max_passes, num_noted, num_requested
        )

    @property
    def architectures(self) -> tuple[str, ...]:
        """Object code for each level that this processor has."""
        return tuple(f"{EMULATED}{level}" for level in levels_to_run())

    @property
    def races(self) -> tuple[Race, ...]:
        """See the class."""
        return self._block.races()

    @property
    def num_races(self) -> int:
        """See the class."""
        return self._block.launch.num_races

    def conflicts(self) -> dict[Place, int]:
        """Ways of the bank conflicts of the last launch by places in the kernel; see `banks`.

        Raises DeviceError where it had more than `num_noted` accesses."""
        return self._block.conflicts()

    def requests(self) -> dict[Place, Requests]:
        """What warps fetched and stored in the last launch by places in the kernel; see `sectors`.

        Raises DeviceError where it had more accesses than `num_requested`."""
        return self._block.requests()

    def load(self, images: Sequence[bytes], symbols: Sequence[str]) -> LoadedLibrary:
        """Link kernels with their operations. Raises DeviceError where they do not fit."""
        try:
            return load_objects([emulator_object(), *images], [ENTRY, *symbols])
        except RuntimeError as error:
            raise DeviceError(
                "kernels for the emulated GPU must be object code that calls its operations alone, "
                f"and they cannot be linked: {first_line(error)}"
            ) from error

    def allocate(self, size_bytes: int) -> int:
        """The address of new memory, a multiple of 256."""
        return self._memory.allocate(size_bytes)

    def free(self, address: int) -> None:
        """Give memory back."""
        self._memory.free(address)

    def write(self, address: int, data: Bytes) -> None:
        """Copy bytes to its memory."""
        self._memory.write(address, data)

    def read(self, address: int, size_bytes: int) -> bytes:
        """Copy bytes from its memory."""
        return self._memory.read(address, size_bytes)

    def launch(
        self,
        loaded: LoadedLibrary,
        symbol: str,
        grid: Extents,
        block: Extents,
        shared_bytes: int,
        arguments: Sequence[int | bytes],
    ) -> None:
        """Run a kernel. Raises DeviceError for extents that a GPU does not have, where threads
        diverge, access what they must not, or race."""
        _check_extents(symbol, grid, block, shared_bytes)
        kept = [
            np.frombuffer(item, np.uint8) if isinstance(item, bytes) else item for item in arguments
        ]
        places = [item if isinstance(item, int) else int(item.ctypes.data) for item in kept]
        given = np.array([*places, 0], np.int64)
        entry = loaded.addresses[symbol]
        self._block.prepare(entry, grid, block, shared_bytes, int(given.ctypes.data))
        _Launch(loaded.addresses[ENTRY])(self._block.launch_address)
        self._block.finish(symbol)

    def tensor_map(self, item: TensorMap, address: int) -> bytes:
        """A map of the tensor at an address, as an argument of a kernel."""
        return emulated_map(item, address)

    def synchronize(self) -> None:
        """Nothing runs after `launch` has returned."""


def _check_extents(symbol: str, grid: Extents, block: Extents, shared_bytes: int) -> None:
    if min(*grid, *block) < 1 or math.prod(block) > MAX_THREADS:
        raise DeviceError(
            f"a launch must have at least one block, of 1 to {MAX_THREADS} threads, and {symbol!r} "
            f"has {grid} blocks of {block}"
        )
    if not 0 <= shared_bytes <= MAX_SHARED_BYTES:
        raise DeviceError(
            f"a block must have at most {MAX_SHARED_BYTES} bytes of shared memory, not "
            f"{shared_bytes} ({symbol!r})"
        )
