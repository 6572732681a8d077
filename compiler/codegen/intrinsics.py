"""The accelerator's instructions as tensor intrinsics, against which `tensorize` matches blocks.

`tensorize` annotates the block with the intrinsic's name, from which code generation
(`daedal.compiler.codegen.accelerator`) finds its constructor. Rows have the variant's size; a block
with rows of another size does not match, and the error message says so.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

from daedal.compiler import te
from daedal.compiler.te.pattern import pattern, scalar
from daedal.compiler.te.table import entry_of
from daedal.compiler.tir.expr import Binary, Expr
from daedal.compiler.tir.intrin import CopyIntrin, TensorIntrin
from daedal.isa.scratchpad import TABLE_ENTRIES, TABLE_ROWS
from daedal.isa.table import AluOp, GemmMode, OutMemory
from daedal.isa.variant import Variant

__all__ = [
    "ACCUMULATING",
    "GEMM",
    "IMMEDIATE",
    "LOOKUP",
    "MOVE",
    "OVER_LANES",
    "REGISTER",
    "REQUANTIZE",
    "REQUANTIZE_WIDE",
    "RESULT",
    "SLIDING",
    "SQUARE",
    "accelerator_intrinsics",
    "accumulator_dtype",
    "element_dtype",
]

GEMM = {
    "gemm": GemmMode.DENSE,
    "gemm_depthwise": GemmMode.DEPTHWISE,
    "gemm_depthwise3": GemmMode.DEPTHWISE3,
}
"""Products of the multiplier array: with rows of weights, or with channel vectors."""

REQUANTIZE_WIDE = "requantize_wide"
"""Accumulators to results of 16 bits; only of variants that have these."""

REQUANTIZE = {
    "requantize": OutMemory.OUT,
    "requantize_widen": OutMemory.ACC,
    REQUANTIZE_WIDE: OutMemory.ACC,
}
"""Accumulators to results, and where these go."""

LOOKUP = {
    "lookup": OutMemory.OUT,
    "lookup_widen": OutMemory.ACC,
    "lookup_entry": OutMemory.ACC,
}
"""The same as `REQUANTIZE`, and the entries of a table at these results: of 8 bits or, for
``lookup_entry``, of 16; only of variants with tables."""

MOVE = "move"
"""Accumulators to results of the same value."""

REGISTER = {
    "alu_add": AluOp.ADD,
    "alu_sub": AluOp.SUB,
    "alu_mul": AluOp.MUL,
    "alu_min": AluOp.MIN,
    "alu_max": AluOp.MAX,
    "alu_shift_even": AluOp.SHR_EVEN,
}
"""``c = x op y`` on accumulators, in place: c takes the rows of x (or of y where op commutes)."""

RESULT = {f"{name}_result": operation for name, operation in REGISTER.items()}
"""The same, but c is a result in OUT: its rows have the numbers of the rows of x."""

SQUARE = "alu_square"
"""``c = x * x`` on accumulators, in place."""

OVER_LANES = {"alu_sum_lanes": AluOp.SUM_LANES, "alu_max_lanes": AluOp.MAX_LANES}
"""All lanes of x combined, in every lane of c; only of variants with lane reductions."""

IMMEDIATE = {f"{name}_immediate": operation for name, operation in REGISTER.items()}
"""``c = x op constant``."""

ACCUMULATING = {f"{name}_accumulate": REGISTER[name] for name in ("alu_add", "alu_min", "alu_max")}
"""``c = c op x``, a reduction."""

SLIDING = {f"{name}_windows": REGISTER[name] for name in ("alu_add", "alu_min", "alu_max")}
"""The same reduction over windows that slide along one dimension, computed in the rows of x."""

_FORMULA: dict[AluOp, Callable[[Expr, Expr], Expr]] = {
    AluOp.ADD: lambda x, y: x + y,
    AluOp.SUB: lambda x, y: x - y,
    AluOp.MUL: lambda x, y: x * y,
    AluOp.MIN: lambda x, y: Binary("min", x, y),
    AluOp.MAX: lambda x, y: Binary("max", x, y),
    AluOp.SHR_EVEN: te.shift_even,
}

_REDUCTION = {
    AluOp.ADD: te.sum,
    AluOp.MIN: te.min,
    AluOp.MAX: te.max,
    AluOp.SUM_LANES: te.sum,
    AluOp.MAX_LANES: te.max,
}


_ENTRY = "int16"
"""Dtype of a table's entries that keep their 16 bits."""


def element_dtype(bits: int) -> str:
    """Dtype that holds inputs, weights or outputs of `bits` bits."""
    return "int8" if bits <= 8 else "int16"


def accumulator_dtype(variant: Variant) -> str:
    """Dtype that holds accumulators."""
    return "int32" if variant.array.accumulator_bits == 32 else "int64"


@lru_cache(maxsize=8)
def accelerator_intrinsics(variant: Variant) -> Mapping[str, TensorIntrin | CopyIntrin]:
    """Every intrinsic of `variant` by name."""
    found: list[TensorIntrin | CopyIntrin] = [
        _gemm(variant),
        _requantize(variant, "requantize", "out"),
        _requantize(variant, "requantize_widen", "acc"),
        _move(variant),
        CopyIntrin("load", ("global",), ("inp", "wgt", "acc", "par", "tab")),
        CopyIntrin("load_widen", ("global",), ("acc",), widening=True),
        CopyIntrin("store", ("out", "acc"), ("global",)),
    ]
    found += [
        _gemm_depthwise(variant, name, mode)
        for name, mode in GEMM.items()
        if mode.taps and mode in GemmMode.of(variant)
    ]
    if variant.memory.tables:
        found += [
            _requantize(
                variant,
                name,
                "out" if memory is OutMemory.OUT else "acc",
                entries=_ENTRY
                if name == "lookup_entry"
                else element_dtype(variant.array.output_bits),
            )
            for name, memory in LOOKUP.items()
        ]
    if variant.units.wide_requantize:
        found.append(_requantize(variant, REQUANTIZE_WIDE, "acc", wide_result=True))
    if variant.units.lane_reductions:
        found += [_over_lanes(variant, name, op) for name, op in OVER_LANES.items()]
    found.append(_square(variant))
    found += [_register(variant, name, op) for name, op in REGISTER.items()]
    found += [_register(variant, name, op, result=True) for name, op in RESULT.items()]
    found += [_immediate(variant, name, op) for name, op in IMMEDIATE.items()]
    found += [_accumulating(variant, name, op) for name, op in (ACCUMULATING | SLIDING).items()]
    return MappingProxyType({intrin.name: intrin for intrin in found})


def _gemm(variant: Variant) -> TensorIntrin:
    array, wide = variant.array, accumulator_dtype(variant)
    a = te.placeholder((array.batch, array.block_in), element_dtype(array.input_bits), "a")
    w = te.placeholder((array.block_out, array.block_in), element_dtype(array.weight_bits), "w")
    i = te.reduce_axis(array.block_in, "i")
    c = te.compute(
        (array.batch, array.block_out),
        lambda b, o: te.sum(a[b, i].astype(wide) * w[o, i].astype(wide), i),
        "c",
    )
    return TensorIntrin("gemm", pattern(c), {"a": ("inp",), "w": ("wgt",), "c": ("acc",)})


def _gemm_depthwise(variant: Variant, name: str, mode: GemmMode) -> TensorIntrin:
    """Adjacent rows ``a[t]`` of the scratchpad, each times a channel vector."""
    array, wide, taps = variant.array, accumulator_dtype(variant), mode.taps
    a_shape = (taps, array.batch, array.block_in)
    a = te.placeholder(a_shape, element_dtype(array.input_bits), "a")
    w = te.placeholder((taps, array.block_in), element_dtype(array.weight_bits), "w")
    t = te.reduce_axis(taps, "t")
    c = te.compute(
        (array.batch, array.block_out),
        lambda b, o: te.sum(a[t, b, o].astype(wide) * w[t, o].astype(wide), t),
        "c",
    )
    scopes = {"a": ("inp",), "w": ("wgt",), "c": ("acc",)}
    return TensorIntrin(name, pattern(c), scopes, sliding=frozenset({"a"}))


def _requantize(
    variant: Variant, name: str, scope: str, *, entries: str = "", wide_result: bool = False
) -> TensorIntrin:
    """Writes results, or with `entries` their entries of a table of that dtype, to OUT, or to
    accumulators for further operations. With `wide_result` the result has the accumulators' type.
    """
    array = variant.array
    wide = accumulator_dtype(variant)
    x = te.placeholder((array.batch, array.block_out), wide, "x")
    par = te.placeholder((array.block_out, 3), "int64", "par")
    rows = TABLE_ROWS, 1, TABLE_ENTRIES // TABLE_ROWS
    table = te.placeholder(rows, entries or element_dtype(array.output_bits), "table")
    zero_point, low, high = (scalar(item, "int64") for item in ("zero_point", "low", "high"))

    def element(b: Expr, o: Expr) -> Expr:
        bias, multiplier, shift = (par[o, part] for part in range(3))
        dtype = wide if wide_result else element_dtype(array.output_bits)
        value = te.requantize(x[b, o], bias, multiplier, shift, zero_point, low, high, dtype)
        if entries:
            value = entry_of(table, value)
        return value if scope == "out" or wide_result else value.astype(wide)

    c = te.compute((array.batch, array.block_out), element, "c")
    scopes = {"x": ("acc",), "par": ("par",), "table": ("tab",), "c": (scope,)}
    return TensorIntrin(name, pattern(c), scopes)


def _move(variant: Variant) -> TensorIntrin:
    x = _vector(variant, "x")
    dtype = element_dtype(variant.array.output_bits)
    c = te.compute(x.shape, lambda b, o: x[b, o].astype(dtype), "c")
    return TensorIntrin(MOVE, pattern(c), {"x": ("acc",), "c": ("out",)})


def _vector(variant: Variant, name: str) -> te.Tensor:
    shape = (variant.array.batch, variant.array.block_out)
    return te.placeholder(shape, accumulator_dtype(variant), name)


def _register(
    variant: Variant, name: str, operation: AluOp, *, result: bool = False
) -> TensorIntrin:
    x, y = _vector(variant, "x"), _vector(variant, "y")
    dtype = element_dtype(variant.array.output_bits)

    def element(b: Expr, o: Expr) -> Expr:
        value = _FORMULA[operation](x[b, o], y[b, o])
        return value.astype(dtype) if result else value

    c = te.compute(x.shape, element, "c")
    scopes = {"x": ("acc",), "y": ("acc",), "c": ("out" if result else "acc",)}
    return TensorIntrin(name, pattern(c), scopes)


def _immediate(variant: Variant, name: str, operation: AluOp) -> TensorIntrin:
    x = _vector(variant, "x")
    immediate = scalar("immediate", x.dtype)
    c = te.compute(x.shape, lambda b, o: _FORMULA[operation](x[b, o], immediate), "c")
    return TensorIntrin(name, pattern(c), dict.fromkeys(("x", "c"), ("acc",)))


def _accumulating(variant: Variant, name: str, operation: AluOp) -> TensorIntrin:
    x = _vector(variant, "x")
    step = te.reduce_axis(1, "step")
    c = te.compute(x.shape, lambda b, o: _REDUCTION[operation](x[b, o], step), "c")
    return TensorIntrin(name, pattern(c), dict.fromkeys(("x", "c"), ("acc",)))


def _over_lanes(variant: Variant, name: str, operation: AluOp) -> TensorIntrin:
    x = _vector(variant, "x")
    lane = te.reduce_axis(x.shape[-1], "lane")
    c = te.compute(x.shape, lambda b, o: _REDUCTION[operation](x[b, lane], lane), "c")
    return TensorIntrin(name, pattern(c), dict.fromkeys(("x", "c"), ("acc",)))


def _square(variant: Variant) -> TensorIntrin:
    x = _vector(variant, "x")
    c = te.compute(x.shape, lambda b, o: x[b, o] * x[b, o], "c")
    return TensorIntrin(SQUARE, pattern(c), dict.fromkeys(("x", "c"), ("acc",)))
