"""A Concat in a formula: a kernel for each operand, and what stays one kernel."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from daedal.artifact.host_code import HostCode
from daedal.compiler import te
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.cpu.parts import in_parts
from daedal.compiler.tir.expr import Select
from daedal.compiler.tir.visit import walk
from daedal.runtime.host_code import HostProgram

FLOAT = onnx.TensorProto.FLOAT


def joined(
    shapes: list[tuple[int, ...]], axis: int, *after: onnx.NodeProto, **options: Any
) -> tuple[HostCode, dict[str, np.ndarray], np.ndarray]:
    """Inputs one after the other, `after` from `t` to `y`; its code, inputs, and what it gives."""
    rng = np.random.default_rng(len(shapes))
    feeds = {
        f"x{number}": rng.normal(size=shape).astype(np.float32)
        for number, shape in enumerate(shapes)
    }
    nodes = [helper.make_node("Concat", list(feeds), ["t" if after else "y"], axis=axis), *after]
    inputs = [helper.make_tensor_value_info(name, FLOAT, x.shape) for name, x in feeds.items()]
    outputs = [helper.make_tensor_value_info("y", FLOAT, None)]
    graph = helper.make_graph(nodes, "joined", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    whole = np.concatenate(list(feeds.values()), axis)
    return build_host_code(model, **options), feeds, whole


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("axis", [1, 2])
def test_each_operand_has_a_kernel(axis: int, *, checked: bool) -> None:
    shapes = [(4, 255, 8), (4, 1, 8)] if axis == 1 else [(4, 40, 9), (4, 40, 30), (4, 40, 1)]
    code, feeds, whole = joined(shapes, axis, checked=checked)
    assert [len(call.buffers) for call in code.calls] == [2] * len(shapes)
    (found,) = HostProgram(code, 1).run(feeds).values()
    np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize("checked", [False, True])
def test_what_is_computed_of_it_and_turned(*, checked: bool) -> None:
    """A cache of keys and the next one, as an attention reads them."""
    turned = helper.make_node("Transpose", ["t"], ["u"], perm=[0, 2, 1])
    code, feeds, whole = joined(
        [(4, 255, 8), (4, 1, 8)], 1, turned, helper.make_node("Exp", ["u"], ["y"]), checked=checked
    )
    assert len(code.calls) == 2
    (found,) = HostProgram(code, 1).run(feeds).values()
    np.testing.assert_allclose(found, np.exp(whole).transpose(0, 2, 1), 1e-6)


def kernel_of(shape: tuple[int, ...], ends: list[int]) -> Kernel:
    """One that chooses along the last axis."""
    x = te.placeholder(shape, "float32", "x")

    def chosen(i: Any, j: Any) -> Any:
        value: Any = x[i, j]
        for number, end in enumerate(ends):
            value = te.select(j < end, value + number, value)
        return value

    return Kernel((x,), te.compute(shape, chosen, "y"), sources=(x,))


def test_parts_choose_nothing() -> None:
    parts = in_parts(kernel_of((32, 64), [16, 40]))
    assert [part.result.shape for part in parts] == [(32, 16), (32, 24), (32, 24)]
    for part in parts:
        assert part.result.value is not None
        assert not any(isinstance(node, Select) for node in walk(part.result.value))


@pytest.mark.parametrize(
    ("shape", "ends"),
    [((8, 64), [16]), ((32, 64), [10, 20, 30, 40]), ((32, 64), [64]), ((32, 64), [])],
    ids=["few elements", "many choices", "no choice", "none"],
)
def test_what_stays_one_kernel(shape: tuple[int, ...], ends: list[int]) -> None:
    kernel = kernel_of(shape, ends)
    assert in_parts(kernel) == (kernel,)
