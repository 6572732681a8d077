"""`build_operator`: any scheduled function as a program, and its refusals."""

import numpy as np
import pytest

import daedal
from daedal.common.errors import ProgramError, ScheduleError
from daedal.compiler import te
from daedal.compiler.codegen.intrinsics import accelerator_intrinsics
from daedal.compiler.schedule.schedule import Schedule

TINY = daedal.load_variant("tiny")
ROWS = (3, 5, 1, 8)


def requantized() -> Schedule:
    """Rows of int8 to other rows of int8, through the accumulators."""
    x = te.placeholder(ROWS, "int8", "x")
    params = te.placeholder((1, 8, 3), "int64", "params")
    wide = te.compute(ROWS, lambda i, j, b, o: x[i, j, b, o].astype("int32"), "wide")
    y = te.compute(
        ROWS,
        lambda i, j, b, o: te.requantize(
            wide[i, j, b, o],
            params[0, o, 0],
            params[0, o, 1],
            params[0, o, 2],
            0,
            -128,
            127,
            "int8",
        ),
        "y",
    )
    schedule = Schedule(
        te.create_prim_func([x, params], [y], "scaled"), accelerator_intrinsics(TINY)
    )
    block, wide_block = schedule.get_block("y"), schedule.get_block("wide")
    store = schedule.cache_write(block, 0, "out")
    schedule.set_scope(wide_block, 0, "acc")
    params_block = schedule.cache_read(block, "params", "par")
    schedule.tensorize(schedule.get_loops(wide_block)[0], "load_widen")
    schedule.tensorize(schedule.get_loops(params_block)[0], "load")
    schedule.tensorize(schedule.get_loops(block)[-2], "requantize")
    schedule.tensorize(schedule.get_loops(store)[0], "store")
    return schedule


def params(multiplier: int, shift: int) -> np.ndarray:
    return np.broadcast_to([0, multiplier, shift], (1, 8, 3)).copy()


@pytest.mark.parametrize("device", ["functional", "timing"])
def test_arrays_keep_their_shapes(rng, device):
    operator = daedal.build_operator(requantized(), TINY, {"params": params(3, 1)})
    x = rng.integers(-40, 40, ROWS)
    result = operator.run({"x": x}, device)
    np.testing.assert_array_equal(result.outputs["y"], np.round(x * 1.5))
    assert (result.profile.cycles is None) == (device == "functional")


def test_constants_are_checked():
    for constants in ({"params": np.zeros((2, 8, 3), np.int64)}, {"scale": params(1, 0)}):
        with pytest.raises(ScheduleError, match="must be a parameter of 'scaled' in its"):
            daedal.build_operator(requantized(), TINY, constants)


def test_inputs_are_checked():
    operator = daedal.build_operator(requantized(), TINY, {"params": params(1, 0)})
    with pytest.raises(ProgramError, match=r"'x' must have shape \(3, 5, 1, 8\), not \(3, 5\)"):
        operator.run({"x": np.zeros((3, 5))})
    with pytest.raises(ProgramError, match="'x' is missing"):
        operator.run({})
