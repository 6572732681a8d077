"""Where tensors lie in memory: never two at once in a place, halves on halves."""

import numpy as np
import pytest

from daedal.compiler.cpu.memory import ALIGN, MemoryPlan

SEED = 20261130


@pytest.mark.parametrize("seed", range(20))
def test_tensors_that_are_needed_at_once_lie_apart(seed: int) -> None:
    rng = np.random.default_rng([SEED, seed])
    plan = MemoryPlan()
    plan.add_constant(np.ones(int(rng.integers(1, 99)), np.float32))
    spans, parts = [], []
    for time in range(40):
        number = plan.add("uint8", [int(rng.integers(1, 5000))], time, int(rng.choice([1, 36])))
        last = time + int(rng.integers(0, 6))
        plan.read(number, last)
        spans.append((time, last))
        parts.append(number)
    buffers, (constant,), size = plan.placed()
    held = np.zeros(size, np.int64)
    held[constant.offset : constant.end] = 1 << 50
    for time in range(50):
        used = held.copy()
        for number, (first, last) in zip(parts, spans, strict=True):
            if first <= time <= last:
                begin = buffers[number].offset
                assert begin % ALIGN == 0
                part = used[begin : begin + buffers[number].shape[0]]
                assert len(part) == buffers[number].shape[0]
                assert not part.any()
                part += 1


def test_middles_coincide() -> None:
    """So the halves of two tensors are halves of a place; threads share tensors of 36 parts
    otherwise, and these have a place of their own."""
    plan = MemoryPlan()
    sizes = {plan.add("uint8", [size], time): size for time, size in enumerate((6400, 640, 1280))}
    other = plan.add("uint8", [640], 5, 36)
    buffers, _, total = plan.placed()
    assert {buffers[number].offset + size // 2 for number, size in sizes.items()} == {3200}
    assert buffers[other].offset == 6400
    assert total == 7040
