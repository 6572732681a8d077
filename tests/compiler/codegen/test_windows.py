"""Windows of a line in place: every window's result, for every kernel, stride and operation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.instances import aligned_strides, live_buffer
from daedal.compiler.codegen.nest import Nest, fold
from daedal.compiler.codegen.window_nests import operation_cycles, window_nests
from daedal.compiler.codegen.windows import Windows
from daedal.compiler.tir.expr import Buffer
from daedal.isa.table import AluOp
from daedal.isa.variant import load_variant

VTA = load_variant("vta")
TINY = load_variant("tiny")

FUNCTIONS = {
    AluOp.ADD: np.add,
    AluOp.SUB: np.subtract,
    AluOp.MAX: np.maximum,
    AluOp.MIN: np.minimum,
}
REDUCTIONS = {AluOp.ADD: np.sum, AluOp.MAX: np.max, AluOp.MIN: np.min}


def odd_is_cheap(distance: int) -> int:
    return 1 + (distance % 2 == 0)


@given(
    st.sampled_from(list(REDUCTIONS)),
    st.integers(1, 20),
    st.integers(1, 6),
    st.integers(1, 9),
    st.integers(0, 2**32 - 1),
)
def test_every_window_is_left_in_its_place(operation, kernel, stride, count, seed):
    check(operation, kernel, stride, count, range(0), seed)


@given(
    st.sampled_from([AluOp.ADD, AluOp.MAX]),
    st.integers(1, 20),
    st.integers(1, 6),
    st.integers(1, 9),
    st.integers(0, 12),
    st.integers(0, 30),
    st.integers(0, 2**32 - 1),
)
def test_padding_is_left_out(operation, kernel, stride, count, low, size, seed):
    check(operation, kernel, stride, count, range(low, low + size), seed)


def check(operation, kernel, stride, count, inside, seed):
    """Every window, where positions that are not `inside` (all, if empty) hold padding."""
    size = (count - 1) * stride + kernel
    line = np.random.default_rng(seed).integers(-128, 128, size)
    if inside:
        line[: inside.start] = line[inside.stop :] = 0 if operation is AluOp.ADD else -128
    wanted = [REDUCTIONS[operation](line[stride * h :][:kernel]) for h in range(count)]
    windows = Windows(operation, kernel, stride, count == 1)
    for step in windows.steps(count, odd_is_cheap, inside or None):
        order = reversed(range(step.count)) if step.descending else range(step.count)
        read = set()
        for i in order:
            target, source = step.target + i * step.stride, step.source + i * step.stride
            line[target] = FUNCTIONS[step.operation](line[target], line[source])
            # An operation may only need the result of the one before if it says so.
            assert step.chained or source not in read
            read.add(target)
    assert [line[windows.place + stride * h] for h in range(count)] == wanted


@pytest.mark.parametrize(
    ("operation", "kernel", "stride", "operations"),
    [
        (AluOp.MAX, 3, 2, 2),
        (AluOp.MAX, 3, 1, 2),
        (AluOp.MAX, 13, 1, 4),
        (AluOp.ADD, 7, 1, 2),
        (AluOp.ADD, 3, 2, 2),
    ],
)
def test_the_number_of_operations(operation, kernel, stride, operations):
    assert len(Windows(operation, kernel, stride).steps(28, lambda _: 1)) == operations


def test_padding_takes_no_operations():
    """28 positions between pads of 6: a maximum over 13 reads padding in every fourth operation."""
    windows = Windows(AluOp.MAX, 13, 1)
    assert sum(step.count for step in windows.steps(28, lambda _: 1)) == 137
    assert sum(step.count for step in windows.steps(28, lambda _: 1, range(6, 34))) == 115


def test_operands_in_one_bank_are_avoided():
    """7 = 4 + 3 = 3 + 4: distances 1, 1, 1, 3 and not 1, 2, 3."""
    steps = Windows(AluOp.MAX, 7, 1).steps(100, odd_is_cheap)
    assert sum(odd_is_cheap(step.distance) for step in steps) == 4
    assert [operation_cycles(VTA, distance) for distance in (1, 2, 3, 4)] == [1, 2, 1, 2]
    assert [operation_cycles(TINY, distance) for distance in (1, 2)] == [2, 3]


def test_a_sum_in_a_plane_as_the_machine_executes_it(rng):
    """Windows of 5 rows in a plane of 11 x 4: rows of the result lie 4 rows down."""
    plane = rng.integers(-9, 9, (11, 4))
    wanted = np.stack([plane[h : h + 5].sum(axis=0) for h in range(7)])
    nest = Nest(
        (7, 4, 5),
        {"dst": 16, "src": 0},
        {"dst": (4, 1, 0), "src": (4, 1, 4)},
        (False, False, True),
        True,
    )
    rows = plane.reshape(-1)
    for item in window_nests(nest, [True, False, False], Windows(AluOp.ADD, 5, 1), VTA):
        for part in fold(item.nest, max_uops=64, max_extent=64, reduce_outermost=True):
            for point in np.ndindex(*part.extents):
                for uop in part.uops:
                    assert min(uop) >= 0
                    dst, src = (
                        part.bases[name]
                        + row
                        + sum(i * f for i, f in zip(point, part.factors[name], strict=True))
                        for name, row in zip(("dst", "src"), uop, strict=True)
                    )
                    rows[dst] = FUNCTIONS[item.operation](rows[dst], rows[src])
    assert (plane[4:] == wanted).all()


def test_loops_over_windows_must_not_be_split():
    nest = Nest(
        (2, 3, 3), {"dst": 0, "src": 0}, {"dst": (3, 1, 0), "src": (3, 1, 1)}, (False, False, True)
    )
    with pytest.raises(ScheduleError, match="a loop over windows, or over their"):
        list(window_nests(nest, [True, True, False], Windows(AluOp.MAX, 3, 1), VTA))


def test_aligned_rows_have_gaps():
    buffer = Buffer("x", (1, 2, 3, 4, 1, 1, 16), "int32", "acc")
    held = live_buffer(VTA, buffer, (0,) * 7, buffer.shape, {"align_2": "32n+16"})
    assert held.strides == (30, 15, 5, 1, 1)
    assert held.instance.rows == 30


def test_an_alignment_is_a_number_of_rows():
    with pytest.raises(ScheduleError) as error:
        aligned_strides("x", (3, 4, 1, 16), {"align_0": "24n+8"})
    assert str(error.value) == (
        "storage_align needs a factor and an offset of whole rows of 16 elements, not 24 and 8 "
        "(buffer 'x')"
    )
