"""The race detector against a definition that keeps all accesses, in all forms of its kernels."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest

from daedal.sim.gpu.block import Block
from daedal.sim.gpu.device_memory import DeviceMemory
from daedal.sim.gpu.races import access

BYTES = 3


@dataclass(frozen=True)
class Access:
    block: int
    barriers: int
    thread: int
    byte: int
    is_write: bool

    def races_with(self, other: "Access") -> bool:
        """The definition."""
        if self.byte != other.byte or not (self.is_write or other.is_write):
            return False
        if self.block != other.block:
            return True
        return self.barriers == other.barriers and self.thread != other.thread


def accesses(seed: int) -> list[Access]:
    """In an order in which blocks run one after the other."""
    rng = np.random.default_rng(seed)
    found = []
    for block in range(rng.integers(1, 3)):
        for barriers in range(rng.integers(1, 4)):
            for _ in range(rng.integers(1, 5)):
                thread, byte = int(rng.integers(3)), int(rng.integers(BYTES))
                found.append(Access(block, barriers, thread, byte, bool(rng.random() < 0.3)))
    return found


def expected(items: list[Access]) -> dict[int, int]:
    """The number of the first access of each byte that races with one before it."""
    first: dict[int, int] = {}
    for (_, early), (number, late) in sorted(
        combinations(enumerate(items), 2), key=lambda pair: pair[1][0]
    ):
        if early.races_with(late):
            first.setdefault(early.byte, number)
    return first


class Detector:
    """The detector in one of its forms; each call of `reported` is a launch."""

    def __init__(self, form: str) -> None:
        memory = DeviceMemory(0, shadows=True)
        self._begin = memory.allocate(BYTES)
        block = Block(memory, 0, True, None, 1)
        block.prepare(0, (1, 1, 1), (3, 1, 1), 0, 0)
        self._launch = block.launch
        self._block = block
        self._access = {"machine": access, "checked": access.checked, "plain": access.plain}[form]

    def reported(self, items: list[Access]) -> dict[int, int]:
        """What it says first of each byte."""
        launch = self._launch
        launch.launch_first = launch.epoch + 1
        first: dict[int, int] = {}
        now = (-1, 0)
        for number, item in enumerate(items):
            if now != (item.block, item.barriers):
                launch.epoch += 1
                if now[0] != item.block:
                    launch.block, launch.block_first = item.block, launch.epoch
                now = (item.block, item.barriers)
            before = launch.num_races
            address = self._begin + item.byte
            assert self._access(launch, item.thread, address, 1, number, item.is_write)
            if launch.num_races > before:
                first.setdefault(item.byte, number)
        return first


@pytest.mark.parametrize(("form", "count"), [("machine", 200), ("checked", 60), ("plain", 20)])
def test_the_first_race_of_each_byte_is_found(form: str, count: int) -> None:
    detector = Detector(form)
    raced = 0
    for seed in range(count):
        items = accesses(seed)
        assert detector.reported(items) == expected(items), f"seed {seed}"
        raced += bool(expected(items))
    assert count // 4 < raced < count
