"""`Block`: the memory of one block's threads, and a launch's record of it."""

import numpy as np
import numpy.typing as npt

from daedal.artifact.gpu_code import Extents
from daedal.common.errors import DeviceError
from daedal.native.record import record_type
from daedal.native.types import ArrayType
from daedal.sim.gpu.accesses import NOTED
from daedal.sim.gpu.banks import Place, bank_conflicts
from daedal.sim.gpu.boxes import BOX_SLOTS, MAX_BOXES
from daedal.sim.gpu.copies import COPY_SLOTS, MAX_COPIES
from daedal.sim.gpu.device_memory import DeviceMemory
from daedal.sim.gpu.failure_text import failure_sentence
from daedal.sim.gpu.groups import GROUP, GROUP_ROWS, GROUP_SLOTS, MAX_COLUMNS
from daedal.sim.gpu.launch import Launch
from daedal.sim.gpu.races import SHADOW_WORDS
from daedal.sim.gpu.reports import KEPT, Column, Failure, Race, place_text
from daedal.sim.gpu.scheduler import STACK_BYTES
from daedal.sim.gpu.sectors import Requests, sector_requests
from daedal.sim.gpu.thread import ROW
from daedal.sim.gpu.warps import WARP

__all__ = ["MAX_SHARED_BYTES", "MAX_THREADS", "Block"]

MAX_THREADS = 1024
MAX_SHARED_BYTES = 227 << 10
"""Source: NVIDIA, CUDA C++ Programming Guide, "Compute Capabilities", 9.0."""
_ALIGN = 1 << 10
_REACH = 1 << 18
"""Bytes around the shared memory that count as offsets there in reports."""
_STAGGER = 1088
"""Between stacks, so that not all of them need the same sets of the processor's cache."""
_NUM_ORDERS = 7


class Block:
    """What the threads of a block have, one block after the other.

    Attributes
    ----------
    launch : the record that kernels share, as the last launch left it.
    launch_address : of the record as kernels have it.
    """

    def __init__(
        self,
        memory: DeviceMemory,
        poison: int,
        races: bool,
        random: np.random.Generator | None,
        max_passes: int,
        num_noted: int = 0,
        num_requested: int = 0,
    ) -> None:
        self._memory = memory
        self._random = random
        self._orders: dict[int, npt.NDArray[np.int32]] = {}
        self._stacks = np.empty(0, np.uint8)
        raw = np.empty(2 * _REACH + _ALIGN, np.uint8)
        shared = int(raw.ctypes.data) + _REACH
        shared += -shared % _ALIGN
        self._shared = raw
        shadow = np.zeros(MAX_SHARED_BYTES * SHADOW_WORDS, np.int32) if races else None
        self._shadow = shadow
        kind = record_type(Launch)
        assert kind is not None
        self._kind = kind
        self._slots = np.zeros(kind.slots, np.int64)
        self.launch_address = int(self._slots.ctypes.data)
        threads = np.zeros(MAX_THREADS * ROW, np.int64)
        home = np.zeros(1, np.int64)
        table = memory.table()
        self.launch = Launch(
            threads=threads,
            words=threads.view(np.int32),
            floats=threads.view(np.float32),
            shorts=threads.view(np.uint16),
            bytes=threads.view(np.int8),
            home=home,
            home_address=int(home.ctypes.data),
            stacks=0,
            stack_stride=STACK_BYTES + _STAGGER,
            orders=np.zeros(1, np.int32),
            entry=0,
            buffers=0,
            address=self.launch_address,
            grid_x=0,
            grid_y=0,
            grid_z=0,
            block_x=0,
            block_y=0,
            block_z=0,
            num_threads=0,
            shared=shared,
            shared_bytes=0,
            shared_shadow=0 if shadow is None else int(shadow.ctypes.data),
            poison=poison,
            begins=table.begins,
            ends=table.ends,
            shadows=table.shadows,
            region=0,
            races=races,
            epoch=0,
            launch_first=0,
            block_first=0,
            block=0,
            max_passes=max_passes,
            failure=0,
            thread=0,
            site=0,
            other_thread=0,
            other_site=0,
            place=0,
            size=0,
            num_races=0,
            found=np.zeros(KEPT * len(Column), np.int64),
            num_noted=0,
            noted=np.zeros(num_noted * NOTED, np.int64),
            num_requested=0,
            requested=np.zeros(num_requested * NOTED, np.int64),
            copies=np.zeros(MAX_THREADS * MAX_COPIES * COPY_SLOTS, np.int64),
            num_boxes=0,
            boxes=np.zeros(MAX_BOXES * BOX_SLOTS, np.int64),
            products=np.zeros(MAX_THREADS // GROUP * GROUP_SLOTS, np.int64),
            halves=np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32),
            factors=np.zeros((GROUP_ROWS + MAX_COLUMNS) * WARP, np.float64),
        )

    def prepare(
        self, entry: int, grid: Extents, block: Extents, shared_bytes: int, buffers: int
    ) -> None:
        """Fill in the record for a launch."""
        launch, table = self.launch, self._memory.table()
        launch.entry, launch.buffers, launch.shared_bytes = entry, buffers, shared_bytes
        launch.grid_x, launch.grid_y, launch.grid_z = grid
        launch.block_x, launch.block_y, launch.block_z = block
        launch.num_threads = block[0] * block[1] * block[2]
        launch.begins, launch.ends, launch.shadows = table.begins, table.ends, table.shadows
        launch.failure = launch.num_races = launch.region = 0
        launch.num_noted = launch.num_requested = 0
        launch.orders = self._orders_of(launch.num_threads)
        needed = launch.num_threads * launch.stack_stride + _ALIGN + STACK_BYTES
        if self._stacks.size < needed:
            self._stacks = np.empty(needed, np.uint8)
            # Before the first one there is as much again, for what overflows.
            launch.stacks = int(self._stacks.ctypes.data) + STACK_BYTES
            launch.stacks += -launch.stacks % _ALIGN
        self._store()

    def finish(self, symbol: str) -> None:
        """Take what the launch left. Raises DeviceError where it failed, or had races."""
        self._load()
        launch = self.launch
        if launch.failure != Failure.NONE:
            raise DeviceError(failure_sentence(launch, symbol, _REACH))
        if launch.num_races:
            first = self.races()[0]
            place = place_text(first.address, launch.shared, _REACH)
            raise DeviceError(
                f"accesses must be ordered by barriers, and {first.sentence(place)} in {symbol!r} "
                f"({launch.num_races} such accesses of bytes)"
            )

    def races(self) -> tuple[Race, ...]:
        """The first races of the last launch."""
        launch = self.launch
        rows = launch.found.reshape(KEPT, -1)[: launch.num_races]
        return tuple(Race.of(row) for row in rows)

    def conflicts(self) -> dict[Place, int]:
        """Ways of the bank conflicts of the last launch. Raises DeviceError where it had more
        accesses than are kept."""
        launch = self.launch
        rows = launch.noted.reshape(-1, NOTED)
        if launch.num_noted > len(rows):
            raise DeviceError(
                f"bank conflicts are counted for at most {len(rows)} accesses of shared memory, "
                f"not {launch.num_noted}; launch fewer blocks"
            )
        return bank_conflicts(rows[: launch.num_noted])

    def requests(self) -> dict[Place, Requests]:
        """What warps fetched and stored in the last launch. Raises DeviceError where it had more
        accesses than are kept."""
        launch = self.launch
        rows = launch.requested.reshape(-1, NOTED)
        if launch.num_requested > len(rows):
            raise DeviceError(
                f"sectors are counted for at most {len(rows)} accesses of global memory, not "
                f"{launch.num_requested}; launch fewer blocks"
            )
        return sector_requests(rows[: launch.num_requested])

    def _orders_of(self, count: int) -> npt.NDArray[np.int32]:
        """Permutations of the threads: several of them if there is a seed."""
        if count not in self._orders:
            random = self._random
            orders = [np.arange(count, dtype=np.int32)]
            if random is not None:
                orders = [random.permutation(orders[0]) for _ in range(_NUM_ORDERS)]
            self._orders[count] = np.concatenate(orders)
        return self._orders[count]

    def _store(self) -> None:
        for item in self._kind.fields:
            value = getattr(self.launch, item.name)
            if isinstance(item.type, ArrayType):
                self._slots[item.slot : item.slot + 2] = value.ctypes.data, len(value)
            else:
                self._slots[item.slot] = value

    def _load(self) -> None:
        for item in self._kind.fields:
            if not isinstance(item.type, ArrayType):
                setattr(self.launch, item.name, int(self._slots[item.slot]))
