"""The interpreter refuses what has no meaning, and its shortcuts change nothing."""

import numpy as np
import pytest

import daedal.compiler.tir.interpreter as interpreter
from daedal.compiler import te
from daedal.compiler.tir.errors import ExecutionError
from daedal.compiler.tir.expr import Axis, Buffer, IntImm, Load, Var
from daedal.compiler.tir.interpreter import run
from daedal.compiler.tir.region import make_block
from daedal.compiler.tir.stmt import (
    Allocate,
    Allocation,
    BlockRealize,
    BufferStore,
    For,
    PrimFunc,
    Range,
    Seq,
    Stmt,
)
from tests.support.tensor_programs import Program, conv2d, inputs_of, matmul, stencil

X = Buffer("x", (4,), "int32")
Y = Buffer("y", (4,), "int32")
T = Buffer("t", (4,), "int32")


def nest(name: str, target: Buffer, source: Buffer, extent: int = 4, shift: int = 0) -> Stmt:
    loop, axis = Var("i"), Axis("v", extent=4)
    store = BufferStore(target, (axis,), Load(source, (axis + shift,)))
    return For(loop, extent, BlockRealize((loop,), make_block(name, (axis,), store)))


DATA = {"x": np.arange(4, dtype=np.int32)}


@pytest.mark.parametrize("program", [conv2d(height=3, width=2, block=2), matmul(), stencil()])
def test_one_by_one_equals_all_at_once(
    program: Program, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    func = te.create_prim_func(*program, "f")
    arrays = inputs_of(program, rng)
    fast = run(func, arrays)
    monkeypatch.setattr(interpreter, "MAX_POINTS", 0)
    slow = run(func, arrays)
    for name, array in fast.items():
        np.testing.assert_array_equal(array, slow[name])


def test_a_block_that_feeds_itself_runs_in_order() -> None:
    loop, axis = Var("i"), Axis("v", extent=4)
    # y[v] = x[v] + (v > 0 ? y[v - 1] : 0): a running sum, whose order matters.
    before = Load(Y, (axis - 1,), pad_value=0)
    store = BufferStore(Y, (axis,), Load(X, (axis,)) + before)
    func = PrimFunc(
        "f", (X, Y), For(loop, 4, BlockRealize((loop,), make_block("y", (axis,), store)))
    )
    assert run(func, DATA)["y"].tolist() == [0, 1, 3, 6]


def test_an_init_of_another_buffer_comes_first_each_time() -> None:
    """The body reads what the init of the same instance has written just before."""
    loop, axis = Var("i"), Axis("v", extent=4)
    init = BufferStore(T, (IntImm(0),), Load(X, (axis,)) * 10)
    body = BufferStore(Y, (axis,), Load(T, (IntImm(0),)))
    block = make_block("y", (axis,), body, init)
    inside = Allocate(
        (Allocation(T, (Range(IntImm(0), 1),)),), For(loop, 4, BlockRealize((loop,), block))
    )
    assert run(PrimFunc("f", (X, Y), inside), DATA)["y"].tolist() == [0, 10, 20, 30]


def test_reading_what_was_never_written() -> None:
    body = Seq((nest("t", T, X, extent=3), nest("y", Y, T)))
    window = (Range(IntImm(0), 4),)
    func = PrimFunc("f", (X, Y), Allocate((Allocation(T, window),), body))
    with pytest.raises(ExecutionError, match=r"^'t' is read before it is written$"):
        run(func, DATA)


def test_allocations_are_fresh_each_time() -> None:
    loop, axis = Var("o"), Axis("v", extent=4)
    first = BlockRealize(
        (IntImm(0),), make_block("t", (axis,), BufferStore(T, (axis,), Load(X, (axis,)))), loop < 1
    )
    own = Axis("v", extent=4)
    second = BlockRealize(
        (loop,), make_block("y", (own,), BufferStore(Y, (own,), Load(T, (IntImm(0),))))
    )
    inside = Allocate((Allocation(T, (Range(IntImm(0), 1),)),), Seq((first, second)))
    with pytest.raises(ExecutionError, match=r"^'t' is read before it is written$"):
        run(PrimFunc("f", (X, Y), For(loop, 4, inside)), DATA)


def test_indices_outside() -> None:
    func = PrimFunc("f", (X, Y), nest("y", Y, X, shift=1))
    with pytest.raises(ExecutionError) as caught:
        run(func, DATA)
    assert str(caught.value) == "index 1..4 is outside 0..3 (dimension 0 of 'x')"


def test_outside_the_window() -> None:
    body = Seq((nest("t", T, X), nest("y", Y, T)))
    func = PrimFunc("f", (X, Y), Allocate((Allocation(T, (Range(IntImm(1), 2),)),), body))
    with pytest.raises(ExecutionError) as caught:
        run(func, DATA)
    assert str(caught.value) == "index 0..3 is outside 1..2 (dimension 0 of 't')"


@pytest.mark.parametrize(
    ("extent", "window", "shift", "message"),
    [
        (3, (0, 4), 1, "'t' is read before it is written"),
        (4, (0, 3), 1, "index 3..3 is outside 0..2 (dimension 0 of 't')"),
        (3, (0, 3), 2, None),
    ],
)
def test_padding_hides_only_what_is_outside_the_buffer(
    extent: int, window: tuple[int, int], shift: int, message: str | None
) -> None:
    """Reads t[1 .. extent + 1] or beyond; what is inside must be there and be written."""
    loop, axis = Var("i"), Axis("v", extent=4)
    first = nest("t", T, X, extent=min(extent, window[1]))
    value = Load(T, (axis * shift,), pad_value=-7)
    own = make_block("y", (axis,), BufferStore(Y, (axis,), value))
    second = For(loop, 4, BlockRealize((loop,), own))
    low, size = window
    backed = (Range(IntImm(low), size),)
    func = PrimFunc("f", (X, Y), Allocate((Allocation(T, backed),), Seq((first, second))))
    if message is None:
        assert run(func, DATA)["y"].tolist() == [0, 2, -7, -7]
        return
    with pytest.raises(ExecutionError) as caught:
        run(func, DATA)
    assert str(caught.value) == message


def test_inputs_and_outputs_are_checked() -> None:
    func = PrimFunc("f", (X, Y), nest("y", Y, X, extent=3))
    with pytest.raises(ExecutionError, match="output 'y' of f was not written completely"):
        run(func, DATA)
    with pytest.raises(ExecutionError, match="f needs an input 'x'; pass it by name"):
        run(func, {})
    with pytest.raises(ExecutionError) as caught:
        run(func, {"x": np.zeros(3, dtype=np.int8)})
    assert str(caught.value) == "input 'x' must be int32[4], not int8[3]"
