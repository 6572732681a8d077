"""`DeviceState`: a state in a device's memory, and the bytes of each of its rows."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from daedal.artifact.states import State
from daedal.common.errors import ModelError
from daedal.isa.protocols import Device
from daedal.isa.tensor import TensorSpec

__all__ = ["DeviceState"]


class DeviceState:
    """A state at an address of a device. Its rows are scattered in blocked layouts.

    Parameters
    ----------
    state, spec : of the artifact and of its program.
    base : address of the region that holds the tensor.
    """

    def __init__(self, state: State, spec: TensorSpec, device: Device, base: int) -> None:
        self._state = state
        self._spec = spec
        self._device = device
        self._address = base + spec.offset_bytes

    def clear(self) -> None:
        """Zero all rows."""
        self._device.write(self._address, bytes(self._spec.size_bytes))

    def store(self, position: int) -> None:
        """Copy the row that the last launch stored to row `position`."""
        for source, target, size in self._copies(position):
            row = self._device.read(self._address + source, size)
            self._device.write(self._address + target, row)

    def check(self, position: int) -> None:
        """Raise ModelError unless there is a row `position`."""
        if not 0 <= position < self._state.rows:
            raise ModelError(
                f"a position must be one of the {self._state.rows} rows of state "
                f"{self._state.name!r}, from 0, not {position}; clear the states to begin again"
            )

    def _copies(self, position: int) -> Iterator[tuple[int, int, int]]:
        """Runs of bytes of a row: where they are, where they go, and their sizes."""
        sources, targets = self._offsets(self._state.begin), self._offsets(position)
        breaks = np.flatnonzero((np.diff(sources) != 1) | (np.diff(targets) != 1)) + 1
        for first, end in zip((0, *breaks), (*breaks, len(sources)), strict=True):
            yield int(sources[first]), int(targets[first]), int(end - first)

    def _offsets(self, index: int) -> npt.NDArray[np.int64]:
        """The offsets of all bytes of a row."""
        shape = self._spec.physical_shape
        element_bytes = self._spec.element_bits // 8
        places = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
        if self._state.axis == 1:
            block, lane = divmod(index, self._spec.block)
            chosen = places[:, block, ..., lane]
        else:
            chosen = places[:, :, index]
        starts = chosen.reshape(-1, 1) * element_bytes
        return np.asarray((starts + np.arange(element_bytes)).reshape(-1))
