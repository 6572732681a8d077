"""Small tensor programs that the tests of te, the loop IR and schedules share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler import te
from daedal.compiler.schedule import Schedule
from daedal.compiler.te import Tensor
from daedal.compiler.tir.evaluate import convert
from daedal.compiler.tir.interpreter import run
from daedal.compiler.tir.intrin import CopyIntrin, TensorIntrin

Program = tuple[list[Tensor], list[Tensor]]
Arrays = dict[str, npt.NDArray[np.generic]]


def conv2d(
    *,
    batch: int = 1,
    blocks_in: int = 2,
    blocks_out: int = 2,
    height: int = 7,
    width: int = 7,
    block: int = 4,
    kernel: int = 3,
    stride: int = 1,
    pad: int = 1,
) -> Program:
    """An int8 convolution in blocked layout, requantized: two computations, `acc` and `y`."""
    x = te.placeholder((batch, blocks_in, height, width, 1, block), "int8", "x")
    w = te.placeholder((blocks_out, blocks_in, kernel, kernel, block, block), "int8", "w")
    par = te.placeholder((blocks_out, block, 3), "int64", "par")
    rows = (height + 2 * pad - kernel) // stride + 1
    columns = (width + 2 * pad - kernel) // stride + 1
    ic = te.reduce_axis(blocks_in, "ic")
    kh, kw = te.reduce_axis(kernel, "kh"), te.reduce_axis(kernel, "kw")
    ci = te.reduce_axis(block, "ci")
    shape = (batch, blocks_out, rows, columns, 1, block)
    acc = te.compute(
        shape,
        lambda n, oc, oh, ow, b, co: te.sum(
            x.padded(0)[n, ic, oh * stride + kh - pad, ow * stride + kw - pad, b, ci].astype(
                "int32"
            )
            * w[oc, ic, kh, kw, co, ci].astype("int32"),
            (ic, kh, kw, ci),
        ),
        "acc",
    )
    y = te.compute(
        shape,
        lambda n, oc, oh, ow, b, co: te.requantize(
            acc[n, oc, oh, ow, b, co], par[oc, co, 0], par[oc, co, 1], par[oc, co, 2], 3, -128, 127
        ),
        "y",
    )
    return [x, w, par], [y]


def matmul(*, rows: int = 6, columns: int = 5, depth: int = 7) -> Program:
    """``c[i, j] = sum(a[i, k] * b[j, k])``, then ``d = c + c`` as another computation."""
    a = te.placeholder((rows, depth), "int8", "a")
    b = te.placeholder((columns, depth), "int8", "b")
    k = te.reduce_axis(depth, "k")
    c = te.compute(
        (rows, columns),
        lambda i, j: te.sum(a[i, k].astype("int32") * b[j, k].astype("int32"), k),
        "c",
    )
    d = te.compute((rows, columns), lambda i, j: c[i, j] + c[i, j], "d")
    return [a, b], [d]


def stencil(*, length: int = 11, width: int = 3) -> Program:
    """Three pointwise and windowed steps in a row; the middle one is read through ``padded``."""
    x = te.placeholder((length, width), "int32", "x")
    p = te.compute((length, width), lambda i, j: x[i, j] * 3 + 1, "p")
    k = te.reduce_axis(3, "k")
    q = te.compute((length, width), lambda i, j: te.max(p.padded(-5)[i + k - 1, j], k), "q")
    r = te.compute((length - 2, width), lambda i, j: q[i, j] - q[i + 2, j], "r")
    return [x], [r]


def both_ways(*, length: int = 6) -> Program:
    """Two blocks that read `x`: `up` three neighbours, `down` one; `y` is their sum."""
    x = te.placeholder((length + 2, 4), "int32", "x")
    up = te.compute((length, 4), lambda i, j: x[i, j] + x[i + 2, j], "up")
    down = te.compute((length, 4), lambda i, j: x[i + 1, j] * 2, "down")
    y = te.compute((length, 4), lambda i, j: up[i, j] - down[i, j], "y")
    return [x], [y]


def inputs_of(program: Program, rng: np.random.Generator) -> Arrays:
    """Random arrays for the placeholders; what is called `par` holds sensible requantization."""
    arrays: Arrays = {}
    for tensor in program[0]:
        if tensor.name == "par":
            head = tensor.shape[:-1]
            columns = [
                rng.integers(-500, 500, head),
                rng.integers(1 << 14, 1 << 16, head),
                rng.integers(18, 24, head),
            ]
            arrays["par"] = np.stack(columns, -1).astype(np.int64)
        else:
            numbers = rng.integers(-128, 128, tensor.shape)
            arrays[tensor.name] = convert(numbers, "int64", tensor.dtype)
    return arrays


def intrinsics(block: int = 4, batch: int = 1) -> dict[str, TensorIntrin | CopyIntrin]:
    """A GEMM, a requantization and transfers for rows of the given size."""
    a = te.placeholder((batch, block), "int8", "inp")
    w = te.placeholder((block, block), "int8", "wgt")
    i = te.reduce_axis(block, "i")
    gemm = te.compute(
        (batch, block),
        lambda b, o: te.sum(a[b, i].astype("int32") * w[o, i].astype("int32"), i),
        "acc",
    )
    acc = te.placeholder((batch, block), "int32", "acc")
    par = te.placeholder((block, 3), "int64", "par")
    zero_point, low, high = (te.scalar(name, "int64") for name in ("zero_point", "low", "high"))
    requantize = te.compute(
        (batch, block),
        lambda b, c: te.requantize(
            acc[b, c], par[c, 0], par[c, 1], par[c, 2], zero_point, low, high
        ),
        "out",
    )
    on_chip = {"inp": ("inp",), "wgt": ("wgt",), "acc": ("acc",), "par": ("par",), "out": ("out",)}
    return {
        "gemm": TensorIntrin("gemm", te.pattern(gemm), on_chip),
        "requantize": TensorIntrin("requantize", te.pattern(requantize), on_chip),
        "load": CopyIntrin("load", ("global",), ("inp", "wgt", "par", "acc")),
        "store": CopyIntrin("store", ("out", "acc"), ("global",)),
    }


def reference(program: Program, arrays: Arrays) -> Sequence[npt.NDArray[np.generic]]:
    """What the program computes, by the interpreter of tensor expressions."""
    return te.evaluate_tensors(program[1], arrays)


def assert_same(schedule: Schedule, arrays: Arrays, expected: Sequence[Any]) -> None:
    """The scheduled function computes `expected`, the outputs in order."""
    results = run(schedule.func, arrays)
    for buffer, wanted in zip(schedule.func.outputs, expected, strict=True):
        np.testing.assert_array_equal(results[buffer.name], wanted, err_msg=str(schedule))
