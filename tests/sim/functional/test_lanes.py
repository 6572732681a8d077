"""The ALU's vector code against `NumpyLane` and `numerics.requantize`, element by element."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.isa.alu_operations import AluOp
from daedal.isa.lane import NumpyLane, reduce_lanes
from daedal.isa.numerics import integer_range, requantize, saturate, wrap
from daedal.isa.variant import load_variant
from daedal.native.kernel import kernel
from daedal.native.types import Array, i64
from daedal.sim.functional.alu import operation_part, reduce_row, requantize_part
from daedal.sim.functional.shape import shape_of

LANES = {name: shape_of(load_variant(name)) for name in ("vta", "int16", "int4")}
# A row of one lane, of several in one vector, and of several vectors.
ROWS = {
    lanes: shape_of(
        load_variant("vta").replace(
            "rows", block_out=lanes, alu_lanes=1, requantize_lanes=1, depthwise_taps=0,
            lane_reductions=True, gemm_reads_out=False,
        )
    )
    for lanes in (8, 16, 64)
}  # fmt: skip


@kernel
def operate(
    operation: i64,
    acc: Array[i64],
    immediate: i64,
    use_immediate: bool,
    saturates: bool,
    to_acc: bool,
    out: Array[i64],
) -> None:
    """One part: x is the first `lanes` elements of `acc`, y the next, results go to the third."""
    size = len(acc) // 3
    operation_part(
        operation,
        acc,
        0,
        size,
        use_immediate,
        immediate,
        saturates,
        to_acc,
        out,
        2 * size,
    )


@kernel
def requantize_row(
    acc: Array[i64],
    bias: Array[i64],
    multiplier: Array[i64],
    shift: Array[i64],
    zero: i64,
    low: i64,
    high: i64,
    to_acc: bool,
    out: Array[i64],
) -> None:
    """One part."""
    requantize_part(acc, 0, bias, multiplier, shift, 0, zero, low, high, to_acc, out, 0)


@kernel
def reduce(
    operation: i64,
    acc: Array[i64],
    immediate: i64,
    use_immediate: bool,
    saturates: bool,
    to_acc: bool,
    out: Array[i64],
) -> None:
    """One batch row: y is the first half of `acc`, results go to the second."""
    half = len(acc) // 2
    reduce_row(operation, acc, 0, use_immediate, immediate, saturates, to_acc, out, half)


REDUCTIONS = {lanes: reduce.specialized({"Shape": shape}) for lanes, shape in ROWS.items()}
KERNELS = {
    name: (operate.specialized({"Shape": shape}), requantize_row.specialized({"Shape": shape}))
    for name, shape in LANES.items()
}


def numbers(rng: np.random.Generator, bits: int, size: int) -> np.ndarray:
    """Numbers of every magnitude, the extremes often."""
    low, high = integer_range(bits)
    values = rng.integers(low, high, size, endpoint=True) >> rng.integers(0, bits, size)
    return np.where(rng.random(size) < 0.2, rng.choice([low, high, 0, -1, 1], size), values)


@pytest.mark.parametrize("name", LANES)
@given(
    operation=st.sampled_from([op for op in AluOp if op.formula and not op.over_lanes]),
    use_immediate=st.booleans(),
    saturates=st.booleans(),
    to_acc=st.booleans(),
    small=st.booleans(),
    seed=st.integers(0, 1 << 32),
)
def test_operations(
    name: str,
    operation: AluOp,
    use_immediate: bool,
    saturates: bool,
    to_acc: bool,
    small: bool,
    seed: int,
) -> None:
    shape, rng = LANES[name], np.random.default_rng(seed)
    acc = numbers(rng, shape.acc_bits, 3 * shape.lanes)
    if small:
        # Shift amounts that matter.
        acc[shape.lanes :] = rng.integers(-64, 64, 2 * shape.lanes)
    immediate = int(numbers(rng, 18, 1)[0])
    out = np.zeros(3 * shape.lanes, dtype=np.int64)
    x, y = acc[: shape.lanes].copy(), acc[shape.lanes : 2 * shape.lanes].copy()
    if use_immediate:
        y = np.full_like(y, immediate)
    assert operation.formula is not None
    result = operation.formula(NumpyLane(x, y, shape.acc_bits))
    if saturates:
        result = saturate(result, shape.out_bits)
    expected = wrap(result, shape.acc_bits if to_acc else shape.out_bits)
    KERNELS[name][0](int(operation), acc, immediate, use_immediate, saturates, to_acc, out)
    np.testing.assert_array_equal((acc if to_acc else out)[2 * shape.lanes :], expected)


@pytest.mark.parametrize("lanes", ROWS)
@given(
    operation=st.sampled_from([op for op in AluOp if op.over_lanes]),
    use_immediate=st.booleans(),
    saturates=st.booleans(),
    to_acc=st.booleans(),
    seed=st.integers(0, 1 << 32),
)
def test_reductions(
    lanes: int, operation: AluOp, use_immediate: bool, saturates: bool, to_acc: bool, seed: int
) -> None:
    shape, rng = ROWS[lanes], np.random.default_rng(seed)
    acc = numbers(rng, shape.acc_bits, 2 * lanes)
    immediate = int(numbers(rng, 18, 1)[0])
    out = np.zeros(2 * lanes, dtype=np.int64)
    y = np.full(lanes, immediate) if use_immediate else acc[:lanes].copy()
    assert operation.formula is not None
    result = reduce_lanes(operation.formula, y, shape.acc_bits)
    if saturates:
        result = saturate(result, shape.out_bits)
    expected = wrap(result, shape.acc_bits if to_acc else shape.out_bits)
    REDUCTIONS[lanes](int(operation), acc, immediate, use_immediate, saturates, to_acc, out)
    np.testing.assert_array_equal((acc if to_acc else out)[lanes:], expected)


@pytest.mark.parametrize("name", LANES)
@given(to_acc=st.booleans(), tie=st.booleans(), seed=st.integers(0, 1 << 32))
def test_requantize(name: str, to_acc: bool, tie: bool, seed: int) -> None:
    shape, rng = LANES[name], np.random.default_rng(seed)
    lanes = shape.lanes
    acc, bias = (numbers(rng, shape.acc_bits, lanes) for _ in range(2))
    multiplier = rng.integers(0, 1 << shape.multiplier_bits, lanes)
    shift = rng.integers(0, 64, lanes)
    if tie:
        # Halves and the like: rounding to even decides.
        multiplier, shift = 1 << rng.integers(0, 4, lanes), rng.integers(0, 6, lanes)
        acc, bias = rng.integers(-99, 99, lanes), np.zeros(lanes, dtype=np.int64)
    zero = int(numbers(rng, 18, 1)[0])
    low, high = (int(item) for item in numbers(rng, shape.out_bits, 2))
    expected = requantize(acc, bias, multiplier, shift, zero, low, high)
    out = np.zeros(lanes, dtype=np.int64)
    KERNELS[name][1](acc, bias, multiplier, shift, zero, low, high, to_acc, out)
    np.testing.assert_array_equal(acc if to_acc else out, expected)
