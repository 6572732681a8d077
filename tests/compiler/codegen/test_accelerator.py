"""Emission of segments: text, sharing of rows, and what is refused."""

import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler import te
from daedal.compiler.codegen import accelerator
from daedal.compiler.codegen.accelerator import emit_segment
from daedal.compiler.codegen.inplace import shared_rows
from daedal.compiler.codegen.intrinsics import accelerator_intrinsics
from daedal.compiler.codegen.printer import segment_text
from daedal.compiler.schedule.schedule import Schedule
from daedal.isa.table import AluOp, Opcode
from daedal.isa.variant import load_variant
from tests.support.accelerator_operators import add_case, conv_case, pool_case

TINY = load_variant("tiny")


def test_the_text_of_a_segment(rng, golden):
    case = conv_case(TINY, rng, (1, 2, 9, 5), 2, (3, 3), pads=(1, 1, 1, 1))
    golden("segment_conv2d.txt", segment_text(emit_segment(case.schedule.func, TINY)))


def test_tiles_share_micro_op_sequences(rng):
    case = conv_case(TINY, rng, (1, 4, 16, 15), 4, (3, 3), pads=(1, 1, 1, 1))
    segment = emit_segment(case.schedule.func, TINY)
    gemms = [i for i in segment.instructions if i.template.opcode is Opcode.GEMM]
    assert len(gemms) > 4
    assert len({item.uops for item in gemms}) <= 2


def test_an_addition_keeps_each_operand_in_its_rows(rng):
    case = add_case(TINY, rng, (1, 1, 3, 3))
    owners = {a.name: b.name for a, b in shared_rows(case.schedule.func).items()}
    assert owners == {"scaled_a": "wide_a", "scaled_b": "wide_b", "total": "wide_a"}


def _operations(schedule: Schedule) -> list[AluOp]:
    instructions = emit_segment(schedule.func, TINY).instructions
    return [AluOp(i.template.operation) for i in instructions if i.template.opcode is Opcode.ALU]


def test_a_maximum_in_its_own_rows_begins_with_a_move(rng):
    case = pool_case(TINY, rng, (1, 1, 4, 4), (4, 4), large=True)
    halves = [AluOp.MOV, AluOp.MAX]
    assert _operations(case.schedule) == [*halves, *halves, AluOp.REQUANTIZE]


def test_a_maximum_over_sliding_windows_needs_no_other_rows(rng):
    case = pool_case(TINY, rng, (1, 1, 6, 7), (3, 3), (2, 2))
    assert _operations(case.schedule) == [AluOp.MAX] * 4 + [AluOp.REQUANTIZE]
    found = emit_segment(case.schedule.func, TINY).instructions
    names = {access.instance.name for item in found for access in item.rows}
    assert names == {"wide", "params_par", "y_out"}


def test_windows_need_their_operand_for_themselves(rng):
    a = te.placeholder((9, 1, 8), "int32", "a")
    x = te.compute(a.shape, lambda i, b, o: a[i, b, o], "x")
    tap = te.reduce_axis(3, "tap")
    m = te.compute((7, 1, 8), lambda i, b, o: te.max(x[i + tap, b, o], [tap]), "m")
    y = te.compute((7, 1, 8), lambda i, b, o: m[i, b, o] + x[i, b, o], "y")
    sch = Schedule(te.create_prim_func([a], [y]), accelerator_intrinsics(TINY))
    for name in ("x", "m"):
        sch.set_scope(sch.get_block(name), 0, "acc")
    i, b, o, tap = sch.get_loops(sch.get_block("m"))
    sch.reorder(i, tap, b, o)
    sch.tensorize(b, "alu_max_windows")
    with pytest.raises(ScheduleError) as error:
        emit_segment(sch.func, TINY)
    assert str(error.value) == (
        "block 'm' must overwrite its operand 'x': nothing else may read that buffer, and both "
        "must be allocated at the same loop"
    )


def _elementwise(second_reader: bool) -> Schedule:
    shape = (2, 1, 8)
    a = te.placeholder(shape, "int32", "a")
    b = te.placeholder(shape, "int32", "b")
    x = te.compute(shape, lambda i, b_, o: a[i, b_, o], "x")
    z = te.compute(shape, lambda i, b_, o: b[i, b_, o], "z")
    y = te.compute(shape, lambda i, b_, o: x[i, b_, o] + z[i, b_, o], "y")
    outputs = [y]
    if second_reader:
        u = te.compute(shape, lambda i, b_, o: x[i, b_, o] + y[i, b_, o], "u")
        v = te.compute(shape, lambda i, b_, o: z[i, b_, o] + u[i, b_, o], "v")
        outputs = [v]
    sch = Schedule(te.create_prim_func([a, b], outputs), accelerator_intrinsics(TINY))
    last = outputs[0].name
    store = sch.cache_write(sch.get_block(last), 0, "acc")
    for name in ("x", "z", "y", "u")[: 4 if second_reader else 2]:
        sch.set_scope(sch.get_block(name), 0, "acc")
    for name in ("x", "z"):
        sch.tensorize(sch.get_loops(sch.get_block(name))[0], "load")
    for name in ("y", "u", "v")[: 3 if second_reader else 1]:
        sch.tensorize(sch.get_loops(sch.get_block(name))[1], "alu_add")
    sch.tensorize(sch.get_loops(store)[0], "store")
    return sch


def test_accumulators_are_added_and_stored():
    segment = emit_segment(_elementwise(False).func, TINY)
    names = [item.template.opcode.name for item in segment.instructions]
    assert names == ["LOAD", "LOAD", "ALU", "STORE"]
    assert segment.tensors == {"a": 64, "b": 64, "y": 64}


def test_an_operand_that_is_read_again_cannot_be_overwritten():
    with pytest.raises(ScheduleError, match=r"block 'y' must overwrite its first operand"):
        emit_segment(_elementwise(True).func, TINY)


def test_the_last_reader_overwrites_its_operand():
    a = te.placeholder((2, 1, 8), "int32", "a")
    x = te.compute(a.shape, lambda i, b, o: a[i, b, o], "x")
    p = te.compute(a.shape, lambda i, b, o: x[i, b, o] * 3, "p")
    y = te.compute(a.shape, lambda i, b, o: x[i, b, o] - p[i, b, o], "y")
    sch = Schedule(te.create_prim_func([a], [y]), accelerator_intrinsics(TINY))
    store = sch.cache_write(sch.get_block("y"), 0, "acc")
    for name, intrin in (("x", "load"), ("p", "alu_mul_immediate"), ("y", "alu_sub")):
        block = sch.get_block(name)
        if name != "y":
            sch.set_scope(block, 0, "acc")
        sch.tensorize(sch.get_loops(block)[int(name != "x")], intrin)
    sch.tensorize(sch.get_loops(store)[0], "store")
    owners = {a.name: b.name for a, b in shared_rows(sch.func).items()}
    assert owners == {"y_acc": "x"}
    assert _operations(sch) == [AluOp.MUL, AluOp.SUB]


def test_a_block_that_is_no_instruction_is_refused():
    a = te.placeholder((2, 1, 8), "int32", "a")
    y = te.compute(a.shape, lambda i, b, o: a[i, b, o], "y")
    with pytest.raises(ScheduleError, match=r"must be tensorized for the accelerator; 'y' is not"):
        emit_segment(te.create_prim_func([a], [y]), TINY)


def test_a_buffer_outside_the_scratchpads_is_refused(rng):
    with pytest.raises(ScheduleError, match=r"'wide_a' is in 'global'"):
        emit_segment(add_case(TINY, rng, (1, 1, 2, 2)).original, TINY)


def test_a_layer_has_a_bound(rng, monkeypatch):
    case = conv_case(TINY, rng, (1, 2, 9, 5), 2, (3, 3), pads=(1, 1, 1, 1))
    count = len(emit_segment(case.schedule.func, TINY).instructions)
    monkeypatch.setattr(accelerator, "MAX_LAYER_INSTRUCTIONS", count)
    assert len(emit_segment(case.schedule.func, TINY).instructions) == count
    monkeypatch.setattr(accelerator, "MAX_LAYER_INSTRUCTIONS", count - 1)
    with pytest.raises(ScheduleError) as error:
        emit_segment(case.schedule.func, TINY)
    assert str(error.value) == (
        f"a layer must take at most {count - 1} instructions, and {case.schedule.func.name!r} "
        "takes more; use smaller maps or a larger variant"
    )
