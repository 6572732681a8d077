"""Folding a nest: the hardware loops and micro-ops reach exactly the rows of the loops."""

import itertools
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from daedal.compiler.codegen.nest import MAX_RUNS, Nest, accumulation_steps, fold


def _points(nest: Nest) -> Counter:
    """(rows of each operand, whether it begins an accumulation) of every iteration."""
    found: Counter = Counter()
    for point in itertools.product(*(range(extent) for extent in nest.extents)):
        rows = tuple(
            base + sum(i * step for i, step in zip(point, nest.steps[name], strict=True))
            for name, base in nest.bases.items()
        )
        first = not any(i for i, reduce in zip(point, nest.reduce, strict=True) if reduce)
        found[rows, first and nest.initial] += 1
    return found


def _folded_points(parts) -> Counter:
    found: Counter = Counter()
    for part in parts:
        for point in np.ndindex(*part.extents):
            # What the machine knows: a loop whose first operand does not move accumulates.
            steps = part.factors["acc"]
            begins = not any(i for i, step in zip(point, steps, strict=True) if step == 0)
            for uop, first in zip(part.uops, part.first, strict=True):
                rows = tuple(
                    base
                    + uop[position]
                    + sum(i * f for i, f in zip(point, part.factors[name], strict=True))
                    for position, (name, base) in enumerate(part.nest.bases.items())
                )
                found[rows, begins and first and part.nest.initial] += 1
    return found


loops = st.lists(
    st.tuples(st.integers(1, 4), st.booleans(), st.integers(0, 9), st.integers(0, 9)), max_size=6
)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(-9, 40)), max_size=4), st.integers(1, 3))
def test_runs_contain_every_row_and_leave_out_gaps(loops, width):
    extents, steps = [extent for extent, _ in loops], [step for _, step in loops]
    nest = Nest(tuple(extents), {"wgt": 400}, {"wgt": tuple(steps)}, (False,) * len(loops))
    rows = {
        400 + sum(i * step for i, step in zip(point, steps, strict=True)) + tap
        for point in itertools.product(*map(range, extents))
        for tap in range(width)
    }
    runs = nest.runs("wgt", width)
    low, high = nest.hull("wgt")
    assert rows <= {row for begin, end in runs for row in range(begin, end)}
    assert min(begin for begin, _ in runs) == low
    assert max(end for _, end in runs) == high + width - 1
    assert len(runs) <= MAX_RUNS


def test_rows_of_a_step_leave_out_those_of_other_steps():
    """Four blocks of output channels, two of eight blocks of input channels each."""
    nest = Nest((4, 2), {"wgt": 2}, {"wgt": (8, 1)}, (False, True))
    assert nest.runs("wgt") == [(2, 4), (10, 12), (18, 20), (26, 28)]


@given(loops, st.booleans(), st.integers(2, 40), st.integers(2, 9), st.booleans())
def test_folding_keeps_every_product(loops, initial, max_uops, max_extent, reduce_outermost):
    acc_steps = [0 if reduce else 5 ** (k + 1) for k, (_, reduce, _, _) in enumerate(loops)]
    nest = Nest(
        tuple(extent for extent, *_ in loops),
        {"acc": 3, "inp": 1, "wgt": 0},
        {
            "acc": tuple(acc_steps),
            "inp": tuple(step for *_, step, _ in loops),
            "wgt": tuple(step for *_, step in loops),
        },
        tuple(reduce for _, reduce, *_ in loops),
        initial,
    )
    parts = list(
        fold(nest, max_uops=max_uops, max_extent=max_extent, reduce_outermost=reduce_outermost)
    )
    assert _folded_points(parts) == _points(nest)
    for part in parts:
        assert len(part.extents) == 3
        assert len(part.uops) <= max_uops
        assert max(part.extents) <= max_extent


def test_a_1x1_convolution_needs_one_micro_op():
    """Output blocks, one fused loop over pixels, input blocks: the hardware loops hold all."""
    nest = Nest(
        (2, 4, 5, 3),
        {"acc": 0, "inp": 0, "wgt": 0},
        {"acc": (20, 5, 1, 0), "inp": (0, 5, 1, 20), "wgt": (3, 0, 0, 1)},
        (False, False, False, True),
        True,
    )
    (part,) = fold(nest, max_uops=64, max_extent=512)
    assert part.extents == (2, 20, 3)
    assert part.uops == ((0, 0, 0),)


def test_too_many_micro_ops_are_several_instructions():
    nest = Nest(
        (9, 9, 9, 4, 4),
        {"acc": 0, "inp": 0, "wgt": 0},
        {"acc": (81, 9, 1, 0, 0), "inp": (100, 10, 1, 7, 3), "wgt": (0, 0, 0, 1, 16)},
        (False, False, False, True, True),
        True,
    )
    parts = list(fold(nest, max_uops=8, max_extent=512))
    assert len(parts) == 4
    assert [part.nest.initial for part in parts] == [True, False, False, False]
    assert {part.uops for part in parts} == {parts[0].uops}


@given(loops)
def test_accumulation_steps_are_all_products_once_the_first_ones_first(loops):
    nest = Nest(
        tuple(extent for extent, *_ in loops),
        {"dst": 3, "src": 1},
        {
            "dst": tuple(0 if reduce else 5 ** (k + 1) for k, (_, reduce, *_) in enumerate(loops)),
            "src": tuple(7 ** (k + 1) for k in range(len(loops))),
        },
        tuple(reduce for _, reduce, *_ in loops),
        True,
    )
    steps = list(accumulation_steps(nest))
    assert [first for first, _ in steps] == [True] + [False] * (len(steps) - 1)
    every = Counter(rows for rows, _ in _points(nest))
    assert sum((Counter(r for r, _ in _points(step)) for _, step in steps), Counter()) == every
    begun = Counter(rows for rows, begins in _points(nest) if begins)
    assert Counter(rows for rows, _ in _points(steps[0][1])) == begun


def test_accumulating_loops_go_around_all_others():
    """A 3x3 window after its first row: the next micro-op never needs the result of this one."""
    nest = Nest(
        (4, 5, 2, 3),
        {"dst": 0, "src": 0},
        {"dst": (5, 1, 0, 0), "src": (14, 1, 7, 1)},
        (False, False, True, True),
    )
    (part,) = fold(nest, max_uops=64, max_extent=512, reduce_outermost=True)
    assert part.extents == (2, 3, 5)
    assert part.uops == ((0, 0), (5, 14), (10, 28), (15, 42))
