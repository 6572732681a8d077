"""Bytes of several vectors are packed and stored together."""

import re

import numpy as np
import pytest

from daedal.compiler import te
from daedal.compiler.codegen.llvm.function import function_text
from daedal.compiler.ops.cpu.schedule import SCOPES
from daedal.compiler.schedule import Schedule
from daedal.compiler.tir.expr import Expr, FloatImm
from daedal.compiler.tir.stmt import PrimFunc
from daedal.native.codegen import assembly_text
from daedal.native.levels import level_cpu, levels_to_run
from tests.support.machine_code import run_machine_code

ROWS, LANES = 3, 16


def bytes_of(x: te.Tensor, vectors: int, low: int, high: int, zero: int, dtype: str) -> PrimFunc:
    """Products that are rounded, bounded, and stored as int8, or as uint8 that are 128 higher."""

    def formula(*i: Expr) -> Expr:
        half = FloatImm(0.5, "float32")
        whole = te.nearest_product(x[i].astype("float32"), half, FloatImm(1e-7, "float32"))
        value = (te.clip(whole, low, high) + zero).astype("int8")
        return value if dtype == "int8" else te.bit_xor(value.astype("uint8"), 128)

    y = te.compute((ROWS, vectors, LANES), formula, "y")
    schedule = Schedule(te.create_prim_func([x], [y], "tested"), scopes=SCOPES)
    _, vector, lane = schedule.get_loops(schedule.get_block("y"))
    schedule.unroll(vector)
    schedule.vectorize(lane)
    return schedule.func


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("vectors", [2, 3, 4])
@pytest.mark.parametrize(("low", "high", "zero"), [(0, 255, -128), (-128, 127, 0), (-90, 40, 70)])
def test_bytes(vectors: int, low: int, high: int, zero: int, dtype: str) -> None:
    x = te.placeholder((ROWS, vectors, LANES), "int32", "x")
    func = bytes_of(x, vectors, low, high, zero, dtype)
    values = np.random.default_rng(vectors).integers(-1000, 1000, x.shape).astype(np.int32)
    values[0, 0, :4] = -(1 << 21), 1 << 21, -40_001, 70_001
    wanted = np.rint(values * (0.5 + 1e-7)).clip(low, high) + zero
    for level in levels_to_run():
        found = run_machine_code(func, {"x": values}, cpu=level_cpu(level))["y"]
        np.testing.assert_array_equal(found, wanted + (128 if dtype == "uint8" else 0))


@pytest.mark.parametrize("vectors", [2, 4])
def test_avx512_packs_two_vectors_at_a_time(vectors: int) -> None:
    x = te.placeholder((ROWS, vectors, LANES), "int32", "x")
    text = function_text(bytes_of(x, vectors, 0, 255, -128, "uint8"), "tested")
    assembly = assembly_text(text, level_cpu("x86-64-v4"))
    assert len(re.findall("vpackssdw", assembly)) * 2 == len(re.findall("vcvtdq2ps", assembly))
    assert "vpmovusdb" not in assembly and "vpmovdb" not in assembly
