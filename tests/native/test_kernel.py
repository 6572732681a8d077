"""Kernels: machine code, checked machine code and plain Python do the same."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.native.kernel import Kernel
from daedal.native.record import record_type
from tests.native import kernels

EDGES = [0, 1, -1, 2, -2, 3, -3, 7, 255, 256, -128, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)]
INTEGERS = st.one_of(st.sampled_from(EDGES), st.integers(-(2**63), 2**63 - 1))
SMALL = st.integers(-50, 50)
FLOATS = st.one_of(
    st.floats(-1e6, 1e6), st.sampled_from([0.0, -0.0, 1.5, 2.5, -1e300, float("inf")])
)


def _plainly_equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.tobytes() == b.tobytes()
    if record_type(type(a)) is not None:
        return all(_plainly_equal(x, getattr(b, name)) for name, x in vars(a).items())
    if isinstance(a, float):
        return a == b or (a != a and b != b)
    return type(a) is type(b) and a == b


def agree(function: Kernel, *arguments: Any) -> Any:
    """Run all three forms on copies; assert that results and arguments are the same."""
    runs = []
    for form in (function.plain, function, function.checked):
        given_arguments = copy.deepcopy(arguments)
        result = form(*given_arguments)
        runs.append((result, given_arguments))
    for result, after in runs[1:]:
        assert _plainly_equal(runs[0][0], result), (runs[0], (result, after))
        for first, second in zip(runs[0][1], after, strict=True):
            assert _plainly_equal(first, second), (runs[0], (result, after))
    return runs[0][0]


@given(INTEGERS, INTEGERS, INTEGERS)
def test_integer_operators(a: int, b: int, c: int) -> None:
    agree(kernels.arithmetic, a, b, c, np.zeros(14, dtype=np.int64))


@given(INTEGERS, INTEGERS.filter(bool))
def test_division_rounds_down(a: int, b: int) -> None:
    agree(kernels.division, a, b, np.zeros(8, dtype=np.int64))


@given(SMALL, SMALL.filter(bool))
def test_division_of_small_numbers(a: int, b: int) -> None:
    agree(kernels.division, a, b, np.zeros(8, dtype=np.int64))


@given(INTEGERS, st.integers(0, 200))
def test_shifts(a: int, n: int) -> None:
    agree(kernels.shifts, a, n, np.zeros(3, dtype=np.int64))


@given(INTEGERS, st.floats(-1e15, 1e15))
def test_casts(a: int, x: float) -> None:
    agree(kernels.casts, a, x, np.zeros(10, dtype=np.int64))


@given(INTEGERS, INTEGERS, st.booleans(), st.floats(-1e6, 1e6))
def test_arguments_are_converted_to_the_declared_width(a: int, b: int, c: bool, x: float) -> None:
    agree(kernels.narrow_parameters, a, b, c, x)


@given(FLOATS, FLOATS)
def test_floats(x: float, y: float) -> None:
    agree(kernels.floats, x, y)


def test_elements_of_every_width(rng: np.random.Generator) -> None:
    for size in (0, 1, 7, 100):
        arrays = [
            np.frombuffer(rng.bytes(size * np.dtype(kind).itemsize), dtype=kind).copy()
            for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "u8")
        ]
        agree(kernels.widths, *arrays, rng.normal(size=size).astype(np.float32))


@given(st.integers(1, 10_000), st.integers(0, 200))
def test_while_loops(n: int, limit: int) -> None:
    agree(kernels.collatz, n, limit)


@given(SMALL, SMALL, st.integers(-7, 7).filter(bool))
def test_for_loops(begin: int, end: int, step: int) -> None:
    agree(kernels.ranges, begin, end, step)


@given(st.integers(-20, 20), st.integers(-20, 20), st.booleans())
def test_logic(a: int, b: int, c: bool) -> None:
    agree(kernels.logic, a, b, c)


@given(SMALL, SMALL)
def test_tuples(a: int, b: int) -> None:
    agree(kernels.swap, a, b)


@given(st.integers(0, 30), st.booleans(), st.integers(0, 1 << 32))
def test_records_and_nested_kernels(cycles: int, stalled: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    units = int(rng.integers(1, 5))
    machine = kernels.Machine(
        cycle=int(rng.integers(100)),
        energy=1.25,
        stalled=stalled,
        busy=rng.integers(0, 50, units),
        kind=rng.integers(0, 256, units).astype(np.uint8),
    )
    agree(kernels.simulate, machine, cycles)


def test_scalars_of_a_record_come_back_as_python_numbers() -> None:
    machine = kernels.Machine(
        4, 0.0, False, np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.uint8)
    )
    kernels.simulate(machine, 1)
    assert (machine.cycle, machine.energy, machine.stalled) == (5, 0.5, True)
    assert type(machine.stalled) is bool


def test_constants_by_dotted_names() -> None:
    assert [agree(kernels.limited, a) for a in (2, 3, 4)] == [2, 3, 3]


def test_recursion() -> None:
    assert agree(kernels.factorial, 20) == 2432902008176640000
    agree(kernels.factorial, 40)


def test_intrinsics() -> None:
    agree(kernels.sums_of_pairs, np.arange(9) ** 3, np.zeros(8, dtype=np.int64))


def test_nothing_traps() -> None:
    out = np.zeros(8, dtype=np.int64)
    kernels.division(-9, 0, out)
    assert out[:2].tolist() == [-9, 0]
    kernels.division(-(2**63), -1, out)
    assert out[:2].tolist() == [-(2**63), 0]
    kernels.shifts(-9, -1, out)
    assert out[:3].tolist() == [0, -1, 0]
    assert kernels.ranges(0, 10, 0) == kernels.ranges(10, 0, 1)


@pytest.mark.parametrize(
    ("arguments", "error", "sentence", "text"),
    [
        ((4, 1, 0), IndexError, "an index must lie inside its array", "a[index]"),
        ((-1, 1, 0), IndexError, "an index must lie inside its array", "a[index]"),
        ((3, 1, 0), AssertionError, "an assertion failed", "assert index"),
        ((0, 0, 0), ValueError, "the step of range must not be 0", "range(0"),
        ((0, 1, -1), ValueError, "a shift amount must not be negative", "<< amount"),
    ],
)
def test_checked_runs_name_what_is_wrong(
    arguments: tuple[int, ...], error: type[Exception], sentence: str, text: str
) -> None:
    array = np.arange(4)
    lines = Path(kernels.__file__).read_text().splitlines()
    line = next(i for i, content in enumerate(lines, 1) if text in content)
    with pytest.raises(error) as caught:
        kernels.faults.checked(array, *arguments)
    assert str(caught.value) == f"{sentence} (kernels.py:{line}, kernel 'faults')"
    with pytest.raises(error):
        kernels.faults.plain(array, *arguments)


def test_a_division_by_zero_is_found() -> None:
    with pytest.raises(ZeroDivisionError, match="a divisor must not be 0"):
        kernels.division.checked(1, 0, np.zeros(8, dtype=np.int64))


def test_a_failure_in_a_called_kernel_ends_the_caller() -> None:
    array = np.arange(4)
    with pytest.raises(IndexError, match="kernel 'faults'"):
        kernels.calls_faults.checked(array, 4)
    assert array[0] == 0
    assert kernels.calls_faults.checked(array, 1) == 1
    assert array[0] == 99
