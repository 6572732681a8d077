"""Machine code of the loop IR against the loop IR's interpreter."""

import math
import re
from collections.abc import Callable

import numpy as np
import pytest

from daedal.compiler import te
from daedal.compiler.codegen.llvm.function import function_text
from daedal.compiler.codegen.llvm.intrinsics import is_lowered
from daedal.compiler.codegen.llvm.scalars import constant
from daedal.compiler.ops.cpu.reuse import Tiles
from daedal.compiler.ops.cpu.schedule import SCOPES, schedule_map, schedule_turned
from daedal.compiler.schedule import Schedule
from daedal.compiler.tir.dtype import DTYPES, is_float, is_integer, limits, numpy_dtype
from daedal.compiler.tir.expr import Expr, eq, ne
from daedal.compiler.tir.interpreter import run
from daedal.compiler.tir.intrinsics import DOT_PRODUCTS, INTRINSICS
from daedal.compiler.tir.stmt import PrimFunc
from daedal.native.codegen import assembly_text
from daedal.native.levels import LEVELS, VNNI, level_cpu, levels_to_run
from tests.support.machine_code import run_machine_code
from tests.support.tensor_programs import inputs_of, matmul, stencil

SHAPE = (3, 37)
"""37 iterations of the innermost loop: two vectors and a rest of five lanes."""


def values(dtype: str, seed: int = 5) -> np.ndarray:
    """Ordinary and extreme values of a type, in random order."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(SHAPE))
    if dtype == "bool":
        return rng.integers(0, 2, SHAPE).astype(bool)
    if is_integer(dtype):
        low, high = limits(dtype)
        drawn = rng.integers(low, high, count, dtype=dtype, endpoint=True)
        drawn[::3] = rng.integers(0, 7, len(drawn[::3]))
        drawn[:6] = (low, high, 0, 1, low + 1, high - 1)
    else:
        drawn = rng.normal(size=count).astype(dtype) * numpy_dtype(dtype).type(30)
        drawn[:8] = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5)
        ends = [sign * 2.0**bits + step for bits in (7, 8, 15, 16, 31, 32)
                for sign in (1, -1) for step in (-1.5, -0.5, 0, 0.5, 1.5)]  # fmt: skip
        with np.errstate(over="ignore"):
            drawn[8 : 8 + len(ends)] = np.array(ends).astype(dtype)
    return rng.permutation(drawn).reshape(SHAPE)


def mapped(formula: Callable[..., Expr], *dtypes: str) -> PrimFunc:
    """Elements of placeholders of `dtypes`, in vectors."""
    tensors = [te.placeholder(SHAPE, dtype, f"x{n}") for n, dtype in enumerate(dtypes)]
    y = te.compute(SHAPE, lambda i, j: formula(*(tensor[i, j] for tensor in tensors)), "y")
    return schedule_map(te.create_prim_func(tensors, [y]), "y")


def check(func: PrimFunc, *arrays: np.ndarray, rtol: float = 0.0) -> None:
    inputs = {f"x{number}": array for number, array in enumerate(arrays)}
    wanted = run(func, inputs)["y"]
    for checked in (False, True):
        found = run_machine_code(func, inputs, checked=checked)["y"]
        if rtol:
            np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol)
        else:
            np.testing.assert_array_equal(found, wanted)


NUMBERS = [dtype for dtype in DTYPES if dtype != "bool"]
ARITHMETIC: dict[str, Callable[[Expr, Expr], Expr]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "min": te.minimum,
    "max": te.maximum,
}
INTEGER: dict[str, Callable[[Expr, Expr], Expr]] = {
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
}
COMPARE: dict[str, Callable[[Expr, Expr], Expr]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": eq,
    "!=": ne,
}


@pytest.mark.parametrize("dtype", NUMBERS)
def test_arithmetic(dtype: str) -> None:
    own = INTEGER if is_integer(dtype) else {"/": lambda a, b: a / b}
    for function in (ARITHMETIC | own).values():
        check(mapped(function, dtype, dtype), values(dtype), values(dtype, 6))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_comparisons(dtype: str) -> None:
    for function in COMPARE.values():
        func = mapped(lambda a, b, f=function: te.select(f(a, b), a, b), dtype, dtype)
        check(func, values(dtype), values(dtype, 6))


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions(dtype: str) -> None:
    for other in DTYPES:
        if {dtype, other} != {"float16", "float64"}:
            check(mapped(lambda a, d=other: a.astype(d), dtype), values(dtype))


def test_bools() -> None:
    func = mapped(lambda a, b: (a & b) | ~a, "bool", "bool")
    check(func, values("bool"), values("bool", 6))


OWN_TYPES = (
    *DOT_PRODUCTS,
    "nearest",
    "nearest_product",
    "nearest_scaled",
    "rounded_product",
    "rounded_quotient",
    "rounded_scaled",
)
"""Intrinsics whose arguments or results have one type, with tests of their own."""


@pytest.mark.parametrize(
    "name", [name for name in INTRINSICS if is_lowered(name) and name not in OWN_TYPES]
)
def test_intrinsics(name: str) -> None:
    intrinsic = INTRINSICS[name]
    count = len(intrinsic.parameters)
    dtypes = [
        dtype for dtype in NUMBERS if intrinsic.kind in ("number", "integer") or is_float(dtype)
    ]
    if intrinsic.kind == "integer":
        dtypes = [dtype for dtype in dtypes if is_integer(dtype)]
    for dtype in dtypes:
        func = mapped(lambda *a, n=name: te.call(n, a), *([dtype] * count))
        # The C library and numpy round some functions differently in the last place.
        rtol = {"float16": 2e-3, "float32": 4e-6, "float64": 1e-13}.get(dtype, 0.0)
        check(func, *(values(dtype, 5 + number) for number in range(count)), rtol=rtol)


def test_products_of_halves_do_not_overflow() -> None:
    """Whether or not the processor has an operation for ``a * b + c`` of float16."""
    a, b, c = (np.full(SHAPE, value, np.float16) for value in (2.0**15, 2.0**15, -np.inf))
    c[1] = -65504
    inputs = {"x0": a, "x1": b, "x2": c}
    func = mapped(te.multiply_add, "float16", "float16", "float16")
    wanted = run(func, inputs)["y"]
    assert (wanted[0] == -np.inf).all() and (wanted[1] == np.inf).all()
    for level in levels_to_run():
        found = run_machine_code(func, inputs, cpu=level_cpu(level))["y"]
        np.testing.assert_array_equal(found, wanted, err_msg=level)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nearest(dtype: str) -> None:
    drawn = np.random.default_rng(6).normal(size=SHAPE).astype(dtype) * 1000
    drawn[0, :4] = (0.5, 1.5, -2.5, 2.0**30)
    check(mapped(te.nearest, dtype), drawn)


@pytest.mark.parametrize("product", [te.nearest_product, te.rounded_product])
def test_nearest_product(product: Callable[..., Expr]) -> None:
    """Products that are no ties."""
    rng = np.random.default_rng(8)
    whole = rng.integers(-(1 << 20), 1 << 20, SHAPE).astype(np.float32)
    high = rng.uniform(1e-4, 1e-3, SHAPE).astype(np.float32)
    low = (high * rng.uniform(-1, 1, SHAPE) * 2.0**-25).astype(np.float32)
    check(mapped(product, "float32", "float32", "float32"), whole, high, low)
    moved = mapped(lambda *i: product(*i) + 7, "float32", "float32", "float32")
    check(moved, whole, high, low)


@pytest.mark.parametrize("product", [te.nearest_scaled, te.rounded_scaled])
def test_products_with_one_factor(product: Callable[..., Expr]) -> None:
    """Ties, too: both are exact."""
    rng = np.random.default_rng(8)
    whole = rng.integers(-(1 << 20), 1 << 20, SHAPE).astype(np.float32)
    factor = rng.uniform(1e-4, 1, SHAPE).astype(np.float32)
    factor[0], factor[1] = 0.5, 2.0**-9
    check(mapped(product, "float32", "float32"), whole, factor)
    check(mapped(lambda *i: product(*i) + 7, "float32", "float32"), whole, factor)


def test_pairs() -> None:
    """Elements that lie side by side, one pair for all lanes, and elements of four tensors."""
    rng = np.random.default_rng(7)
    x = te.placeholder((3, 8), "int16", "x0")
    w = te.placeholder((4, 37, 2), "int8", "x1")
    apart = te.placeholder((3, 37), "int16", "x2")

    def sums(i: Expr, j: Expr) -> Expr:
        pairs = (x[i, 4], x[i, 5]), (w[2, j, 0].astype("int16"), w[2, j, 1].astype("int16"))
        others = (apart[i, j], x[i, 0]), (apart[2, j], apart[i, 36 - j])
        return te.dot_pairs(*pairs) + te.dot_pairs(*others)

    y = te.compute(SHAPE, sums, "y")
    func = schedule_map(te.create_prim_func([x, w, apart], [y]), "y")
    arrays = [
        rng.integers(*limits(item.dtype), item.shape, dtype=item.dtype, endpoint=True)
        for item in (x, w, apart)
    ]
    check(func, *arrays)


def test_quads() -> None:
    """Elements that lie side by side, one group for all lanes, and elements of four tensors."""
    rng = np.random.default_rng(8)
    x = te.placeholder((3, 8), "uint8", "x0")
    w = te.placeholder((4, 37, 4), "int8", "x1")
    apart = te.placeholder((3, 37), "uint8", "x2")
    sums = te.placeholder((37,), "int32", "x3")

    def total(i: Expr, j: Expr) -> Expr:
        weights = [w[2, j, number] for number in range(4)]
        others = [w[number, 36 - j, number] for number in range(4)]
        elements = (apart[i, j], x[i, 0], apart[2, 36 - j], x[1, 3])
        first = te.dot_quads([x[i, 2 + number] for number in range(4)], weights)
        return sums[j] + first + te.dot_quads(elements, others)

    y = te.compute(SHAPE, total, "y")
    func = schedule_map(te.create_prim_func([x, w, apart, sums], [y]), "y")
    arrays = [
        rng.integers(*limits(item.dtype), item.shape, dtype=item.dtype, endpoint=True)
        for item in (x, w, apart, sums)
    ]
    check(func, *arrays)


PAIRS = {
    "x86-64": "\tpmaddwd",
    "x86-64-v3": "\tvpmaddwd\t(",
    "x86-64-v4": "%zmm",
    "aarch64": "\tsmlal",
}
"""What is among the instructions of a sum of pairs, by level."""


@pytest.mark.parametrize("level", PAIRS)
def test_pairs_are_one_instruction(level: str) -> None:
    a, b = (te.placeholder((16, 2), "int16", f"x{number}") for number in range(2))
    y = te.compute((16,), lambda i: te.dot_pairs((a[i, 0], a[i, 1]), (b[i, 0], b[i, 1])), "y")
    text = function_text(schedule_map(te.create_prim_func([a, b], [y]), "y"), "tested")
    assembly = assembly_text(text, level_cpu(level))
    assert PAIRS[level] in assembly
    assert level == "aarch64" or "pmulld" not in assembly


def quads() -> str:
    """The text of sums to which four products of an uint8 and an int8 are added."""
    a = te.placeholder((16, 4), "uint8", "x0")
    b, c = te.placeholder((16, 4), "int8", "x1"), te.placeholder((16,), "int32", "x2")

    def total(i: Expr) -> Expr:
        factors = ([item[i, number] for number in range(4)] for item in (a, b))
        return c[i] + te.dot_quads(*factors)

    y = te.compute((16,), total, "y")
    return function_text(schedule_map(te.create_prim_func([a, b, c], [y]), "y"), "tested")


@pytest.mark.parametrize("level", [level for level in LEVELS if level.endswith(VNNI)])
def test_quads_are_added_in_one_instruction(level: str) -> None:
    assembly = assembly_text(quads(), level_cpu(level))
    found = re.findall(r"vpdpbusd\t.*%([yz])mm", assembly)
    assert found == (["z"] if "v4" in level else ["y", "y"])
    assert "vpaddd" not in assembly


@pytest.mark.parametrize(("level", "sums"), [("aarch64-i8mm", 4), ("aarch64-dotprod", 12)])
def test_quads_are_added_on_aarch64(level: str, sums: int) -> None:
    """By usdot; or by sdot, and twice more for what the second factors sum up to."""
    name = "usdot" if level.endswith("i8mm") else "sdot"
    assembly = assembly_text(quads(), level_cpu(level))
    assert len(re.findall(rf"\t{name}\tv\d+\.4s, v\d+\.16b, v\d+\.16b", assembly)) == sums
    assert "mull" not in assembly and "mla" not in assembly


@pytest.mark.parametrize("level", [level for level in LEVELS if level.endswith(VNNI)])
def test_pairs_are_added_in_the_same_instruction(level: str) -> None:
    a, b = (te.placeholder((16, 2), "int16", f"x{number}") for number in range(2))
    c = te.placeholder((16,), "int32", "x2")

    def total(i: Expr) -> Expr:
        return c[i] + te.dot_pairs((a[i, 0], a[i, 1]), (b[i, 0], b[i, 1]))

    y = te.compute((16,), total, "y")
    text = function_text(schedule_map(te.create_prim_func([a, b, c], [y]), "y"), "tested")
    assembly = assembly_text(text, level_cpu(level))
    assert "vpdpwssd" in assembly and "vpmaddwd" not in assembly


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize(
    "program", [matmul(rows=5, columns=7, depth=3), stencil()], ids=["matmul", "stencil"]
)
def test_programs(program: tuple[list[te.Tensor], list[te.Tensor]], *, optimized: bool) -> None:
    """Reductions, reads outside, buffers inside the function."""
    func = te.create_prim_func(*program)
    inputs = inputs_of(program, np.random.default_rng(2))
    wanted = run(func, inputs)
    found = run_machine_code(func, inputs, optimized=optimized)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


def test_lanes_that_read_and_write_apart() -> None:
    """Transposed and reversed places, places that another tensor holds, a strided store."""
    x = te.placeholder((37, 3), "float32", "x0")
    index = te.placeholder((37,), "int64", "x1")
    y = te.compute(
        (37, 3),
        lambda i, j: x[36 - i, j] + x[i, 2 - j] + x[index[i].astype("int32"), j]
        + (i * 3 + j).astype("float32"),
        "y",
    )  # fmt: skip
    schedule = Schedule(te.create_prim_func([x, index], [y]))
    rows, columns = schedule.get_loops(schedule.get_block("y"))
    schedule.reorder(columns, rows)
    schedule.vectorize(rows)
    rng = np.random.default_rng(4)
    check(
        schedule.func,
        rng.normal(size=(37, 3)).astype(np.float32),
        rng.integers(0, 37, 37).astype(np.int64),
    )


def test_the_checked_form_finds_a_bad_index() -> None:
    x = te.placeholder((5,), "float32", "x")
    index = te.placeholder((4,), "int64", "index")
    y = te.compute((4,), lambda i: x[index[i].astype("int32")], "y")
    func = te.create_prim_func([x, index], [y])
    inputs = {"x": np.arange(5, dtype=np.float32), "index": np.array([0, 4, 2, 1])}
    np.testing.assert_array_equal(
        run_machine_code(func, inputs, checked=True)["y"], inputs["x"][inputs["index"]]
    )
    for bad in (5, -1, 1 << 20):
        with pytest.raises(IndexError):
            run_machine_code(func, {**inputs, "index": np.array([0, 1, bad, 1])}, checked=True)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sigmoid"])
def test_approximations_over_all_magnitudes(name: str) -> None:
    """Relative errors of a few units in the last place, infinities, and gradual underflow."""
    sizes = np.exp2(np.linspace(-149, 127.99, 40_000)).astype(np.float32)
    near = np.linspace(-110, 95, 60_001).astype(np.float32)
    x = np.concatenate([sizes, -sizes, near])[:139_860].reshape(-1, 333)
    given = te.placeholder(x.shape, "float32", "x0")
    y = te.compute(x.shape, lambda i, j: te.call(name, (given[i, j],)), "y")
    func = schedule_map(te.create_prim_func([given], [y]), "y")
    wanted, found = run(func, {"x0": x})["y"], run_machine_code(func, {"x0": x})["y"]
    np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))
    np.testing.assert_allclose(found, wanted, rtol=5e-7, atol=2e-45)


@pytest.mark.parametrize(
    ("least", "most", "is_short"), [(-87.33654, 88.0, True), (-87.4, 0.0, False), (-1, 88.1, False)]
)
def test_powers_of_a_limited_range(least: float, most: float, is_short: bool) -> None:
    """Shorter code, as exact as for any range, where all results are normal numbers."""
    near = np.linspace(-100, 100, 60_000).astype(np.float32)
    x = np.concatenate([near, np.exp2(-near), [0, least, most, math.nan]]).astype(np.float32)
    given = te.placeholder(x.shape, "float32", "x0")
    y = te.compute(
        x.shape, lambda i: te.exp(te.minimum(te.maximum(given[i], least), most)), "y"
    )  # fmt: skip
    func = schedule_map(te.create_prim_func([given], [y]), "y")
    found = run_machine_code(func, {"x0": x})["y"]
    wanted = np.exp(np.clip(x, np.float32(least), np.float32(most)).astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=2.4e-7)
    assert np.isnan(found[-1])
    assert found[-4] == 1
    limit_of_any = constant(104.0, "float32").text
    assert (limit_of_any not in function_text(func, "f")) == is_short


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("extreme", "other"), [(te.maximum, -math.inf), (te.minimum, math.inf)])
def test_extremes_of_numbers_alone(
    extreme: Callable[[Expr, Expr], Expr], other: float, dtype: str
) -> None:
    """What is no number is left out, of the second operand: one comparison of vectors."""
    given = np.array([1, -2, math.nan, math.inf, -math.inf, 0.5, math.nan, 3], dtype=dtype)
    a, b = np.repeat(given, len(given)), np.tile(given, len(given))
    x, z = (te.placeholder(a.shape, dtype, f"x{number}") for number in range(2))
    y = te.compute(a.shape, lambda i: extreme(x[i], te.number_or(z[i], other)), "y")
    func = schedule_map(te.create_prim_func([x, z], [y]), "y")
    check(func, a, b)
    assert "llvm.m" not in function_text(func, "f"), "neither llvm.maximum nor llvm.minimum"


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "float64"])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_squares_are_turned_in_registers(dtype: str, size: int) -> None:
    """Vectors are read along one axis and stored along the other, whatever is computed of them."""
    x = te.placeholder((2 * size, size), dtype, "x0")
    bias = te.placeholder((2 * size,), dtype, "x1")
    y = te.compute((size, 2 * size), lambda i, j: te.maximum(x[j, i], bias[j]), "y")
    tiles = Tiles(1, size, ((0, size),), outer=(0, 1))
    func = schedule_turned(te.create_prim_func([x, bias], [y]), "y", tiles, {})
    rng = np.random.default_rng(size)
    arrays = [
        rng.integers(-100, 100, shape).astype(dtype) for shape in ((2 * size, size), (2 * size,))
    ]
    check(func, *arrays)
    text = function_text(func, "f")
    # A shuffle of every vector for each stage, and one that repeats its bias; nothing is read or
    # stored one by one.
    stages = {4: 2, 8: 3, 16: 4}[size]
    assert text.count("shufflevector") == (stages + 1) * size
    assert "extractelement" not in text


@pytest.mark.parametrize("size", [4, 8])
def test_a_loop_of_a_reduction_is_no_square(size: int) -> None:
    """It reads along itself and every second element along the lanes, and adds to one place."""
    x = te.placeholder((3 * size,), "float32", "x0")
    k = te.reduce_axis(size, "k")
    y = te.compute((size,), lambda i: te.sum(x[i * 2 + k], k), "y")
    schedule = Schedule(te.create_prim_func([x], [y]), scopes=SCOPES)
    block = schedule.get_block("y")
    lanes, reduced = schedule.get_loops(block)
    schedule.reorder(reduced, lanes)
    schedule.decompose_reduction(block, reduced)
    schedule.vectorize(schedule.get_loops(block)[-1])
    check(schedule.func, np.arange(3 * size, dtype=np.float32))


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "float64"])
@pytest.mark.parametrize("times", [2, 4, 8, 16, 3])
@pytest.mark.parametrize("extent", [1, 5, 24, 37])
def test_elements_that_are_read_by_several_lanes(dtype: str, times: int, extent: int) -> None:
    """One vector is read, and its elements are repeated, where the number is a power of two."""
    x = te.placeholder((3, extent), dtype, "x0")
    y = te.compute((3, extent * times), lambda i, j: x[i, j // times], "y")
    func = schedule_map(te.create_prim_func([x], [y]), "y")
    check(func, np.random.default_rng(extent).integers(0, 2, x.shape).astype(dtype))
    if times != 3 and extent > 1:
        assert "insertelement" not in function_text(func, "f"), "lanes are not read one by one"
