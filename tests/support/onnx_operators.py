"""One ONNX node through its tensor expression, and through ONNX's reference evaluator."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from daedal.compiler import te
from daedal.compiler.graph.ops.foreign import evaluate_onnx
from daedal.compiler.ops.onnx.lower import lower_node
from daedal.compiler.ops.onnx.operation import Operand, ResultType, buffer_shape
from daedal.compiler.te.lower import topological
from daedal.compiler.tir.interpreter import run

__all__ = ["NEWEST", "check_node", "lowered_results"]

NEWEST = 21
"""The opset of nodes whose test does not say another one."""

Arrays = Mapping[str, npt.NDArray[Any]]


def check_node(
    op_type: str,
    feeds: Arrays,
    *,
    constants: Collection[str] = (),
    opset: int = NEWEST,
    results: int = 1,
    inputs: Sequence[str] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    **attributes: Any,
) -> None:
    """Assert that a node's tensor expression gives what ONNX's reference evaluator gives.

    Parameters
    ----------
    feeds : the operands by name.
    constants : operands whose values are known when the node is compiled.
    inputs : names of all operands in order, "" where one is absent; None: those of `feeds`.
    rtol, atol : for floats; integers and bools must be equal.
    """
    names = list(feeds) if inputs is None else list(inputs)
    outputs = [f"y{number}" for number in range(results)]
    proto = helper.make_node(op_type, names, outputs, **attributes)
    with np.errstate(all="ignore"):
        wanted = evaluate_onnx(proto, opset, dict(feeds))
    found = lowered_results(proto, opset, feeds, constants, wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        if other.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(one, other)


def _type(array: npt.NDArray[Any]) -> ResultType:
    return ResultType(array.shape, array.dtype.name)


def lowered_results(
    proto: onnx.NodeProto,
    opset: int,
    feeds: Arrays,
    constants: Collection[str],
    like: Sequence[npt.NDArray[Any]],
    *,
    loops: bool = False,
) -> list[npt.NDArray[Any]]:
    """The results of a node's tensor expression, of the types of `like`.

    With `loops` the interpreter of the loop IR must give the same.
    """
    operands: list[Operand | None] = []
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name in proto.input:
        if not name:
            operands.append(None)
            continue
        array = np.asarray(feeds[name])
        # A constant may be empty, as the shape of a scalar is. Nothing reads it.
        shape = buffer_shape(array.shape) if array.size else (1,)
        tensor = te.placeholder(shape, array.dtype.name, name)
        arrays[name] = array.reshape(shape) if array.size else np.zeros(shape, array.dtype)
        operands.append(Operand(tensor, array.shape, array if name in constants else None))
    given = iter(like)
    types = [_type(next(given)) if name else None for name in proto.output]
    tables: dict[te.Tensor, npt.NDArray[Any]] = {}
    lowered = lower_node(proto, opset, operands, types, "node", tables)
    tensors = [tensor for tensor, kind in zip(lowered, types, strict=False) if kind is not None]
    arrays.update({tensor.name: array for tensor, array in tables.items()})
    found = te.evaluate_tensors(tensors, arrays)
    if loops:
        inputs = [tensor for tensor in topological(tensors) if tensor.value is None]
        func = te.create_prim_func(inputs, tensors)
        stored = run(func, {tensor.name: arrays[tensor.name] for tensor in inputs})
        for tensor, array in zip(tensors, found, strict=True):
            np.testing.assert_array_equal(stored[tensor.name], array)
    return [one.reshape(other.shape) for one, other in zip(found, like, strict=True)]
