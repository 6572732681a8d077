"""Maps with pads: kernels store inside the pads, and compute what the formulas say."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from daedal.artifact.host_code import HostCode
from daedal.compiler import te
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.cpu.constants import Constants
from daedal.compiler.cpu.frame import framed
from daedal.compiler.cpu.fusion import fuse
from daedal.compiler.tir.expr import Buffer, Cast
from daedal.compiler.tir.interpreter import run
from daedal.compiler.tir.lower.rebuild import rebuilt
from daedal.compiler.tir.stmt import BufferStore, For, Seq, Stmt
from daedal.runtime.host_code import HostProgram

ROUNDING = 1e-5
"""Of a sum, relative to the largest result."""


def floats(*shape: int) -> np.ndarray:
    """The same values in whatever order tests run."""
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


def padded(source: te.Tensor, before: tuple[int, ...], shape: tuple[int, ...], value: float) -> Any:
    """`source` with pads, as convolutions read it."""
    read = source.padded(value)
    return te.compute(
        shape,
        lambda *i: read[tuple(at - first for at, first in zip(i, before, strict=True))],
        "q",
    )


@pytest.mark.parametrize(
    ("inner", "before", "outer"),
    [
        ((3, 5), (1, 1), (5, 7)),
        ((2, 3, 4), (0, 2, 0), (2, 5, 4)),
        ((1, 4, 3), (1, 0, 2), (3, 4, 7)),
        ((1, 4, 5, 3), (0, 2, 1, 0), (1, 7, 8, 3)),
        ((4, 5, 3, 2), (0, 1, 0, 0), (4, 7, 3, 2)),
        ((4, 5, 3, 2), (1, 0, 0, 0), (5, 6, 3, 2)),
    ],
    ids=str,
)
def test_content_and_border_are_the_whole(
    inner: tuple[int, ...], before: tuple[int, ...], outer: tuple[int, ...]
) -> None:
    """Every element is stored by the border's function or by the content's, and by one of them."""
    x = te.placeholder(inner, "float32", "x")
    q = padded(x, before, outer, -1.0)
    found = framed(q)
    assert found is not None and found.copies and found.source is x
    content = found.frame.placed(te.create_prim_func([x], [found.content], "content"))
    border = found.frame.border("float32").body
    sides = border.body if isinstance(border, Seq) else (border,)
    assert sum(map(stores, sides)) == math.prod(outer) - math.prod(inner)
    (output,) = content.outputs
    whole = replace(content, body=Seq((content.body, *(into(output, side) for side in sides))))
    value = floats(*inner)
    (wanted,) = te.evaluate_tensors([q], {"x": value})
    np.testing.assert_array_equal(run(whole, {"x": value})["q"], wanted)


def stores(stmt: Stmt) -> int:
    """How many elements loops around one store write."""
    return stmt.extent * stores(stmt.body) if isinstance(stmt, For) else 1


def into(buffer: Buffer, stmt: Stmt) -> Stmt:
    """`stmt`, which stores in `buffer`."""
    if isinstance(stmt, BufferStore):
        return replace(stmt, buffer=buffer)
    return rebuilt(stmt, lambda expr: expr, lambda part: into(buffer, part))


def test_what_is_no_frame() -> None:
    x = te.placeholder((3, 4), "float32", "x")
    read = x.padded(0)
    cropped = te.compute((3, 4), lambda i, j: read[i + 1, j], "cropped")
    strided = te.compute((5, 4), lambda i, j: read[i * 2 - 1, j], "strided")
    turned = te.compute((5, 6), lambda i, j: read[j - 1, i - 1], "turned")
    uneven = te.compute((5, 4), lambda i, j: read[i - 1, j] + Cast("float32", j), "uneven")
    assert [framed(item) for item in (cropped, strided, turned, uneven)] == [None] * 4


def sums_of_a_padded_map() -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """A map, the same with pads, and sums of three rows of that."""
    x = te.placeholder((6, 6), "float32", "x")
    p = te.compute((6, 6), lambda i, j: x[i, j] * 2 + x[5 - i, j], "p")
    q = padded(p, (1, 1), (8, 8), 0.0)
    k = te.reduce_axis(3, "k")
    return p, q, te.compute((6, 6), lambda i, j: te.sum(q[i + k, j], k), "r")


def test_other_readers_read_inside() -> None:
    """A map that is read with pads and without is in memory once, with pads."""
    p, q, r = sums_of_a_padded_map()
    s = te.compute((6, 6), lambda i, j: r[i, j] + p[i, j], "s")
    kernels = fuse([s], Constants({}))
    assert set(kernels) == {q, s}
    assert kernels[q].frame is not None and kernels[s].sources == (q,)


def test_a_map_that_is_needed_is_kept() -> None:
    p, q, r = sums_of_a_padded_map()
    assert set(fuse([r, p], Constants({}))) == {p, q, r}


def check(nodes: list[Any], x: tuple[int, ...], outputs: list[str], **weights: Any) -> HostCode:
    """Compile for every level that this processor has, with checks, and compare."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    made: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    given = {"x": floats(*x)}
    wanted = ReferenceEvaluator(made).run(None, given)
    for checked in (True, False):
        code = build_host_code(made, checked=checked)
        for threads in (1, 2):
            program = HostProgram(code, threads)
            for _ in range(2):  # what the first run leaves in memory does not matter
                found = program.run(given)
                for name, value in zip(outputs, wanted, strict=True):
                    most = ROUNDING * float(np.abs(value).max())
                    np.testing.assert_allclose(found[name], value, rtol=0, atol=most)
    return code


CASES = [((5, 5), 3, 1), ((7, 9), 3, 2), ((1, 6), 3, 1), ((12, 13), 5, 1)]


@pytest.mark.parametrize(("extents", "kernel", "stride"), CASES, ids=str)
def test_a_convolution_stores_inside_the_pads_of_the_next(
    extents: tuple[int, int], kernel: int, stride: int
) -> None:
    """An inverted residual: expansion, depthwise with pads, projection, and the sum."""
    channels, wide = 24, 40
    pads = [kernel // 2] * 4
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node(
            "Conv", ["b", "w1"], ["c"], group=wide, pads=pads, strides=[stride, stride]
        ),
        helper.make_node("Conv", ["c", "w2"], ["d"]),
        helper.make_node("Add", ["d", "x"] if stride == 1 else ["d", "d"], ["y"]),
    ]
    weights = {
        "w0": floats(wide, channels, 1, 1),
        "w1": floats(wide, 1, kernel, kernel),
        "w2": floats(channels, wide, 1, 1),
    }
    code = check(nodes, (2, channels, *extents), ["y"], **weights)
    # x into channels-last, border, three convolutions, y out of it: no copy with pads.
    assert len(code.calls) <= 6


def test_maps_with_other_readers() -> None:
    """The padded map is also added to, pooled with other pads, and an output."""
    weights = {f"w{n}": floats(3, 16, 16, 3, 3)[n] for n in range(3)}
    conv = {"pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], **conv),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], **conv),
        helper.make_node("Add", ["c", "b"], ["d"]),
        helper.make_node("Conv", ["d", "w2"], ["e"], pads=[2, 0, 1, 1]),
        helper.make_node("MaxPool", ["d"], ["f"], kernel_shape=[3, 3], **conv),
    ]
    check(nodes, (1, 16, 6, 7), ["b", "e", "f"], **weights)
