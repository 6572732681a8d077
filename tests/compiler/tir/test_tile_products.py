"""Which loops are products of matrices in tile registers."""

import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler import te
from daedal.compiler.ops.cpu.schedule import SCOPES
from daedal.compiler.schedule import Schedule
from daedal.compiler.tir.tile_products import TILE, TILE_OPERATIONS
from tests.compiler.cpu.test_tile_registers import matrices


@pytest.mark.parametrize(
    ("operation", "rows", "reason"),
    [
        ("tile_multiply", 32, "extents of at most"),
        ("tile_zero", 16, "begin at 0"),
        ("tile_store", 16, "copy sums"),
    ],
)
def test_what_does_not_match_is_refused(operation: str, rows: int, reason: str) -> None:
    kernel = matrices(rows, 16, 16)
    func = te.create_prim_func(kernel.inputs, [kernel.result], "f")
    schedule = Schedule(func, TILE_OPERATIONS, scopes=SCOPES | {TILE})
    block = schedule.get_block("acc" if operation == "tile_multiply" else "y")
    if operation == "tile_multiply":
        schedule.set_scope(block, 0, "local")
        schedule.decompose_reduction(block, schedule.get_loops(block)[0])
    with pytest.raises(ScheduleError, match=reason):
        schedule.tensorize(schedule.get_loops(block)[0], operation)
