"""The families of sums, products and windows on the cases that ONNX itself publishes per operator.

These have operands and results that are stored or computed by code of their own, not by the
reference evaluator.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.test.loader import load_model_tests

from daedal.compiler import te
from daedal.compiler.ops.onnx import (
    attention,
    convolution,
    normalization,
    pooling,
    products,
    recurrent,
    reductions,
)
from daedal.compiler.ops.onnx.lower import lower_node
from daedal.compiler.ops.onnx.operation import Operand, ResultType, buffer_shape
from daedal.compiler.tir.dtype import DTYPES
from daedal.isa.errors import UnsupportedError

FAMILIES = (attention, convolution, normalization, pooling, products, recurrent, reductions)

REFUSED = {"test_batchnorm_epsilon_training_mode", "test_batchnorm_example_training_mode"}
"""Cases that are not for inference."""


def load_cases() -> Sequence[Any]:
    """ONNX's cases of single nodes, with their models and data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(load_model_tests(kind="node"))


def representable(arrays: Sequence[np.ndarray]) -> bool:
    """Whether tensors can hold these: te has no uint64 and bfloat16, and no empty tensors but
    constants without elements."""
    return all(
        array.dtype.name in DTYPES and (array.size > 0 or array.shape == (0,)) for array in arrays
    )


def evaluated(
    proto: onnx.NodeProto,
    opset: int,
    feeds: Mapping[str, np.ndarray],
    wanted: Sequence[np.ndarray | None],
) -> list[np.ndarray]:
    """The results where `wanted` is not None; short lists of integers are constants."""
    operands: list[Operand | None] = []
    arrays: dict[str, np.ndarray] = {}
    for name in proto.input:
        if not name:
            operands.append(None)
            continue
        array = feeds[name]
        shape = buffer_shape(array.shape) if array.size else (1,)
        tensor = te.placeholder(shape, array.dtype.name, name)
        constant = array.dtype.kind == "i" and array.size < 10
        operands.append(Operand(tensor, array.shape, array if constant else None))
        if array.size:
            arrays[name] = array.reshape(shape)
    types = [None if one is None else ResultType(one.shape, one.dtype.name) for one in wanted]
    tensors = lower_node(proto, opset, operands, types, "node")
    asked = [number for number, one in enumerate(wanted) if one is not None]
    return te.evaluate_tensors([tensors[number] for number in asked], arrays)


def check(case: Any) -> bool:
    """Whether the case is of one node of the families; asserts its results."""
    model, (inputs, outputs) = case.model, case.data_sets[0]
    node = model.graph.node[0]
    known = {name for family in FAMILIES for name in family.LOWERINGS}
    if len(model.graph.node) > 1 or node.domain or node.op_type not in known:
        return False
    arrays = [np.asarray(array) for array in inputs]
    if not representable(arrays):
        return False
    opset = next(item.version for item in model.opset_import if not item.domain)
    feeds = dict(zip((item.name for item in model.graph.input), arrays, strict=True))
    found = dict(zip((item.name for item in model.graph.output), outputs, strict=True))
    wanted = [None if not name else np.asarray(found[name]) for name in node.output]
    given = [array for array in wanted if array is not None]
    for one, other in zip(evaluated(node, opset, feeds, wanted), given, strict=True):
        tolerance = 1e-2 if other.dtype == np.float16 else 1e-3
        if other.dtype.kind != "f":
            tolerance = 0
        np.testing.assert_allclose(
            one.reshape(other.shape), other, tolerance, tolerance / 10, err_msg=case.name
        )
    return True


def test_cases_of_onnx() -> None:
    checked = 0
    for case in load_cases():
        if case.name in REFUSED:
            with pytest.raises(UnsupportedError):
                check(case)
        else:
            checked += check(case)
    assert checked > 300, "ONNX no longer publishes its cases here"
