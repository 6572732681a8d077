"""Kernels that compute row by row, and reductions of rows that lanes do not divide."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from daedal.compiler.cpu.build import build_host_code
from daedal.runtime.host_code import HostProgram

EXTENTS = (3, 4, 7, 13, 16, 21, 31, 49, 63, 197)
Array = np.ndarray


def compiled(
    op_types: list[str],
    shape: tuple[int, ...],
    constants: dict[str, Array] | None = None,
    outputs: int = 1,
    *,
    checked: bool = False,
    **attributes: Any,
) -> tuple[HostProgram, int]:
    """A chain of operators whose first reads `x` and the constants; how many kernels it is."""
    given = constants or {}
    names = [f"t{number}" for number in range(len(op_types) - 1)]
    results = [f"y{number}" for number in range(outputs)]
    first, *others = op_types
    nodes = [helper.make_node(first, ["x", *given], names[:1] or results, **attributes)]
    for number, op_type in enumerate(others):
        target = [*names, results[0]][number + 1]
        nodes.append(helper.make_node(op_type, [names[number]], [target]))
    graph = helper.make_graph(
        nodes,
        "rows",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in results],
        [numpy_helper.from_array(value, name) for name, value in given.items()],
    )
    opset = helper.make_opsetid("", 23)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    code = build_host_code(model, checked=checked)
    assert not code.interpreted
    return HostProgram(code, 1), len(code.calls)


def rows(*shape: int) -> Array:
    return np.random.default_rng(shape[-1]).normal(size=shape).astype(np.float32) * 3


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def layer_norm(x: Array) -> Array:
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "Softmax": softmax,
    "LogSoftmax": lambda x: np.log(softmax(x)),
    "LayerNormalization": layer_norm,
    "RMSNormalization": lambda x: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5),
}


@pytest.mark.parametrize("op_type", FUNCTIONS)
@pytest.mark.parametrize("extent", [5, 49, 197])
@pytest.mark.parametrize("checked", [False, True])
def test_rows(op_type: str, extent: int, *, checked: bool) -> None:
    x = rows(2, 3, extent)
    constants = {"s": np.ones(extent, np.float32)} if "Norm" in op_type else {}
    program, num_kernels = compiled([op_type], x.shape, constants, checked=checked)
    (found,) = program.run({"x": x}).values()
    np.testing.assert_allclose(found, FUNCTIONS[op_type](x.astype(np.float64)), 1e-5, 1e-5)
    if op_type != "RMSNormalization":  # whose one reduction has a kernel with its epilogue
        assert num_kernels == 1


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize(
    ("shape", "together"),
    [((3, 8, 10), 4), ((6, 16), 2), ((9, 7), 3), ((5, 16), 1), ((2, 6, 200), 2), ((4, 256), 1)],
)
def test_short_rows_are_computed_side_by_side(
    shape: tuple[int, ...], together: int, *, checked: bool
) -> None:
    """So many as divide their number, of a softmax, which has two reductions, and the next one."""
    x = rows(*shape)
    program, _ = compiled(["Softmax", "Exp", "Softmax"], shape, checked=checked)
    (found,) = program.run({"x": x}).values()
    wanted = softmax(np.exp(softmax(x.astype(np.float64))))
    np.testing.assert_allclose(found, wanted, 1e-5)
    (call,) = program.code.calls
    assert call.iterations == math.prod(shape[:-1]) // together


def test_the_last_operator_is_a_row_of_the_one_before() -> None:
    """What reads a row element by element is computed with it, and what reads rows of that too."""
    x = rows(7, 40)
    program, num_kernels = compiled(["Softmax", "Exp", "Softmax"], x.shape)
    (found,) = program.run({"x": x}).values()
    wanted = softmax(np.exp(softmax(x.astype(np.float64))))
    np.testing.assert_allclose(found, wanted, 1e-5)
    assert num_kernels == 1


def test_a_statistic_that_is_a_result() -> None:
    """It is stored, so the kernel that computes it is another one."""
    x = rows(6, 33)
    scale = {"s": np.ones(33, np.float32)}
    program, num_kernels = compiled(["LayerNormalization"], x.shape, scale, outputs=3)
    y, mean, inverse = program.run({"x": x}).values()
    np.testing.assert_allclose(y, layer_norm(x.astype(np.float64)), 1e-5, 1e-5)
    np.testing.assert_allclose(mean, x.mean(-1, keepdims=True), 1e-4, 1e-5)
    np.testing.assert_allclose(inverse, 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5), 1e-5)
    assert num_kernels > 1


def test_long_rows_are_not_kept() -> None:
    """A row that no cache of the processor's own holds is stored between kernels."""
    x = rows(2, 1 << 15)
    program, num_kernels = compiled(["Softmax"], x.shape)
    (found,) = program.run({"x": x}).values()
    np.testing.assert_allclose(found, softmax(x.astype(np.float64)), 1e-5)
    assert num_kernels > 1


def test_subnormal_shares_are_0() -> None:
    """Of masked elements, say: some processors take a hundred times as long for such numbers. The
    exponents may all be 1, so that their sum is their number."""
    x = np.zeros((2, 40), np.float32)
    x[0, ::2] = np.linspace(-110, -80, 20)
    x[1, 1:] = -math.inf
    program, _ = compiled(["Softmax"], x.shape)
    (found,) = program.run({"x": x}).values()
    powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    normal = np.where(powers < 40 * 2.0**-126, 0, powers)
    assert (found[0] == 0).sum() > 10
    np.testing.assert_allclose(found, normal / normal.sum(-1, keepdims=True), rtol=1e-5)


def test_numbers_that_are_none_stay_in_their_row() -> None:
    x = rows(4, 21)
    x[1, 20], x[2, :] = math.nan, -math.inf
    program, _ = compiled(["Softmax"], x.shape)
    (found,) = program.run({"x": x}).values()
    np.testing.assert_array_equal(np.isnan(found).all(1), [False, True, True, False])
    assert np.isfinite(found[[0, 3]]).all()


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMax"])
def test_reductions_of_all_extents(op_type: str) -> None:
    for extent in EXTENTS:
        x = rows(3, extent)
        program, _ = compiled([op_type], x.shape, {"a": np.array([-1])})
        (found,) = program.run({"x": x}).values()
        reduce = np.sum if op_type == "ReduceSum" else np.max
        wanted = reduce(x.astype(np.float64), axis=-1, keepdims=True)
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-5, err_msg=str(extent))


def test_a_kernel_of_a_long_chain_has_few_stages() -> None:
    """The time to compile a kernel grows faster than its stages."""
    x, count = rows(4, 24), 5
    program, num_kernels = compiled(["Softmax"] * count, x.shape)
    (found,) = program.run({"x": x}).values()
    for _ in range(count):
        x = softmax(x.astype(np.float64))
    np.testing.assert_allclose(found, x, 1e-5)
    assert count / 3 <= num_kernels < 2 * count
