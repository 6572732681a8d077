"""Rows of states in memory: each row's bytes are those of the blocked layout, and no others."""

import numpy as np
import pytest

from daedal.artifact.states import State, check_states
from daedal.common.errors import ArtifactError, ModelError
from daedal.isa.program import Program
from daedal.isa.tensor import TensorSpec, pack_tensor, unpack_tensor
from daedal.isa.variant import load_variant
from daedal.runtime.states import DeviceState
from daedal.sim.host_memory import HostMemory

VARIANT = load_variant("attention")


def state_on(axis: int, shape: tuple[int, int, int, int], begin: int, rows: int) -> State:
    assert begin < shape[axis]
    return State("cache", "new", "tensor", axis, rows, begin)


@pytest.mark.parametrize(
    ("axis", "shape", "begin"),
    [(1, (2, 48, 5, 1), 32), (2, (2, 16, 40, 1), 32), (2, (1, 32, 9, 1), 8)],
)
@pytest.mark.parametrize("element_bits", [8, 32])
def test_only_the_row_is_written(
    axis: int,
    shape: tuple[int, int, int, int],
    begin: int,
    element_bits: int,
    rng: np.random.Generator,
) -> None:
    spec = TensorSpec("tensor", 1, 64, shape, element_bits, 1, 16)
    device = HostMemory(VARIANT)
    base = device.alloc(64 + spec.size_bytes + 64)
    guard = bytes(rng.integers(0, 256, 64, dtype=np.uint8))
    device.write(base, guard)
    device.write(base + 64 + spec.size_bytes, guard)
    values = rng.integers(-128, 128, shape)
    device.write(base + 64, pack_tensor(spec, values))
    state = DeviceState(state_on(axis, shape, begin, begin - 1), spec, device, base)
    for position in (0, 5, begin - 2):
        state.store(position)
        row = [slice(None)] * 4
        row[axis] = slice(position, position + 1)
        values[tuple(row)] = values.take([begin], axis)
        found = unpack_tensor(spec, device.read(base + 64, spec.size_bytes))
        np.testing.assert_array_equal(found, values)
    state.clear()
    assert not any(device.read(base + 64, spec.size_bytes))
    assert device.read(base, 64) == guard
    assert device.read(base + 64 + spec.size_bytes, 64) == guard


def test_a_position_is_a_row() -> None:
    spec = TensorSpec("tensor", 1, 0, (1, 16, 40, 1), 8, 1, 16)
    device = HostMemory(VARIANT)
    state = DeviceState(state_on(2, spec.shape, 32, 31), spec, device, device.alloc(1024))
    for right in (0, 30):
        state.check(right)
    for wrong in (-1, 31):
        with pytest.raises(
            ModelError, match=rf"one of the 31 rows of state 'cache', .* not {wrong}"
        ):
            state.check(wrong)


def test_a_state_lies_in_one_program() -> None:
    spec = TensorSpec("tensor", 1, 0, (1, 16, 40, 1), 8, 1, 16)
    program = Program(VARIANT, (), inputs=(spec,))
    good = state_on(2, spec.shape, 32, 31)
    check_states((good,), (program,))
    for states, programs in (
        ((good,), ()),
        ((good,), (program, program)),
        ((State("cache", "new", "other", 2, 31, 32),), (program,)),
        ((State("cache", "new", "tensor", 1, 31, 32),), (program,)),
        ((State("cache", "new", "tensor", 2, 33, 32),), (program,)),
    ):
        with pytest.raises(ArtifactError, match="an input of one program, and 'cache' does not"):
            check_states(states, programs)
