"""Running a nest at once equals running it step by step, for nests of any kind, illegal ones too.

The nests here obey no rule of the loop IR: bindings overlap, count down or stop short, inits come
late, elements are written many times.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest

import daedal.compiler.tir.interpreter as interpreter
from daedal.compiler.tir.condition import all_of
from daedal.compiler.tir.errors import ExecutionError
from daedal.compiler.tir.expr import Axis, Binary, Buffer, Expr, FloatImm, IntImm, Load, Or, Var
from daedal.compiler.tir.interpreter import run
from daedal.compiler.tir.region import make_block
from daedal.compiler.tir.stmt import BlockRealize, BufferStore, For, PrimFunc, Seq, Stmt

SIZE = 6
NUM_NESTS = 150


@dataclass
class Nests:
    """Random functions of x that write y, of `dtype`."""

    rng: np.random.Generator
    dtype: str
    x: Buffer = field(init=False)
    y: Buffer = field(init=False)

    def __post_init__(self) -> None:
        self.x = Buffer("x", (SIZE, SIZE), self.dtype)
        self.y = Buffer("y", (SIZE, SIZE), self.dtype)

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, low: int, high: int) -> int:
        """From `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def index(self, variables: list[Var]) -> Expr:
        """Mostly inside [0, SIZE): a sum of variables, or a remainder of one."""
        result: Expr = IntImm(self.pick(0, 1))
        for var in variables:
            if self.chance(0.6):
                result = result + var * self.pick(-1, 2) if self.chance(0.2) else result + var
        return result % SIZE if self.chance(0.9) else result

    def condition(self, variables: list[Var]) -> Expr:
        return self.index(variables) < self.pick(2, SIZE)

    def constant(self) -> Expr:
        value = self.pick(-2, 2)
        if self.dtype == "bool":
            return IntImm(value % 2, "bool")
        return FloatImm(value / 3, self.dtype) if self.dtype == "float32" else IntImm(value, "int8")

    def value(self, variables: list[Var]) -> Expr:
        indices = (self.index(variables), self.index(variables))
        load = self.x.padded(1)[indices] if self.chance(0.3) else self.x[indices]
        return load if self.chance(0.8) else self.constant()

    def update(self, target: Load, variables: list[Var]) -> Expr:
        if self.dtype == "bool":
            return Or(target, self.value(variables))
        return Binary(str(self.rng.choice(["+", "min", "max"])), target, self.value(variables))

    def realized(self, number: int, loops: list[Var]) -> Stmt:
        """A block over `loops`, sometimes with loops and a block of its own inside."""
        axes = tuple(
            Axis(f"v{n}", extent=SIZE, kind="reduce" if self.chance(0.4) else "spatial")
            for n in range(self.pick(1, 3))
        )
        spatial: list[Var] = [axis for axis in axes if axis.kind == "spatial"]
        indices = (self.index(spatial), self.index(spatial))
        target = Load(self.y, indices)
        init = BufferStore(self.y, indices, self.constant()) if self.chance(0.7) else None
        updates = init is not None or self.chance(0.3)
        value = self.update(target, list(axes)) if updates else self.value(list(axes))
        body: Stmt = BufferStore(self.y, indices, value)
        if self.chance(0.3):
            own, loop = Axis("w", extent=3), Var("k")
            moved = (indices[0], (indices[1] + own) % SIZE)
            value = self.update(Load(self.y, moved), [*axes, own]) if updates else value
            store = BufferStore(self.y, moved, value)
            if updates:
                inner = make_block(f"inner{number}", (*axes, own), store)
                body = For(loop, 3, BlockRealize((*axes, loop), inner))
        block = make_block(f"b{number}", axes, body, init)
        values = tuple(self.index(loops) for _ in axes)
        conditions = [self.condition(loops) for _ in range(self.pick(0, 2))]
        return BlockRealize(values, block, all_of(conditions))

    def nest(self, number: int, outer: list[Var]) -> Stmt:
        loops = [Var(f"l{n}") for n in range(self.pick(1, 3))]
        stmt = self.realized(number, [*outer, *loops])
        for loop in loops:
            stmt = For(loop, self.pick(1, 4), stmt)
        return stmt

    def func(self) -> PrimFunc:
        """y is filled first, unless an unwritten element is to be met."""
        axes = (Axis("i", extent=SIZE), Axis("j", extent=SIZE))
        loops = (Var("i"), Var("j"))
        fill = make_block("fill", axes, BufferStore(self.y, axes, Load(self.x, axes)))
        filled = For(loops[0], SIZE, For(loops[1], SIZE, BlockRealize(loops, fill)))
        outer = Var("o")
        parts = [self.nest(number, [outer]) for number in range(self.pick(1, 2))]
        body: Stmt = parts[0] if len(parts) == 1 else Seq(tuple(parts))
        whole = For(outer, self.pick(1, 2), body)
        order = (filled, whole) if self.chance(0.8) else (whole, filled)
        return PrimFunc("f", (self.x, self.y), Seq(order))


def outcome(func: PrimFunc, arrays: dict[str, np.ndarray]) -> list[object] | None:
    """The output; None where an access is illegal: which one is met first may differ."""
    try:
        return list(run(func, arrays)["y"].reshape(-1).tolist())
    except ExecutionError:
        return None


@pytest.mark.parametrize("dtype", ["int8", "float32", "bool"])
def test_any_nest(dtype: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    illegal = 0
    for number in range(NUM_NESTS):
        nests = Nests(np.random.default_rng((seed, number)), dtype)
        func = nests.func()
        data = nests.rng.integers(-128, 128, (SIZE, SIZE))
        x = data > 0 if dtype == "bool" else (data / 7 if dtype == "float32" else data)
        arrays = {"x": x.astype(dtype)}
        results = []
        for most in (0, 7, 1 << 20):
            monkeypatch.setattr(interpreter, "MAX_POINTS", most)
            results.append(outcome(func, arrays))
        assert results[1] == results[0], f"seed {seed}, nest {number}, in pieces"
        assert results[2] == results[0], f"seed {seed}, nest {number}, at once"
        illegal += results[0] is None
    assert 0 < illegal < NUM_NESTS // 2, "most nests run, and some do not"
