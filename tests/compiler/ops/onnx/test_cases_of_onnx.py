"""The node tests that come with ONNX: each is lowered, or refused for a reason that is known.

Small ones also run as loops. Those of `AS_ONNXRUNTIME` must give what onnxruntime does.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.backend.test.case.node import collect_testcases

from daedal.common.errors import UnsupportedError
from daedal.compiler.ops.onnx.table import LOWERINGS
from daedal.compiler.tir.dtype import DTYPES
from tests.support.onnx_operators import lowered_results
from tests.support.onnx_suite import AS_ONNXRUNTIME, results_of_onnxruntime

FEWEST = 500
"""At least as many cases must be lowered: fewer would mean that they are not found."""

MOST_ELEMENTS = 300
"""Operands and results of a case that runs as loops."""

REFUSED = {
    "BatchNormalization": "training_mode must be 0",
    "Dropout": "training_mode must be false",
}
"""By operator: why some of its cases are refused."""

EMPTY = "extent must be positive, not 0"
"""Why reductions over no elements are."""

TOLERANCES = {"float16": 2e-3, "float32": 1e-4, "float64": 1e-6}
"""Some cases are written with four digits."""

Arrays = list[npt.NDArray[Any]]


def cases() -> Iterator[tuple[str, onnx.NodeProto, int, Arrays, Arrays]]:
    """Name, node, opset, operands and results of all cases whose types expressions have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # ONNX draws the operands from numpy's global generator.
        np.random.seed(0)  # noqa: NPY002
        found = collect_testcases(None)
    for case in found:
        if case.model is None or len(case.model.graph.node) != 1:
            continue
        (node,) = case.model.graph.node
        if node.domain not in ("", "ai.onnx") or node.op_type not in LOWERINGS:
            continue
        opset = next(item.version for item in case.model.opset_import if not item.domain)
        operands, results = case.data_sets[0]
        arrays = [*operands, *results]
        if not all(isinstance(item, np.ndarray | np.generic) for item in arrays):
            continue
        operands, results = ([np.asarray(item) for item in side] for side in (operands, results))
        known = all(item.dtype.name in DTYPES for item in (*operands, *results))
        # Nothing is computed for an empty result.
        if known and all(item.size for item in results):
            if case.name in AS_ONNXRUNTIME:
                results = results_of_onnxruntime(case.model, operands, results)
            yield case.name, node, opset, operands, results


def test_all_cases() -> None:
    wrong: list[str] = []
    lowered = 0
    others = set(AS_ONNXRUNTIME)
    for name, node, opset, operands, results in cases():
        names = [item for item in node.input if item]
        feeds = dict(zip(names, operands, strict=True))
        try:
            small = sum(item.size for item in (*operands, *results)) <= MOST_ELEMENTS
            found = lowered_results(node, opset, feeds, names, results, loops=small)
        except UnsupportedError as error:
            if REFUSED.get(node.op_type, EMPTY) not in str(error):
                wrong.append(f"{name}: {error}")
            continue
        lowered += 1
        others.discard(name)
        for one, other in zip(found, results, strict=True):
            tolerance = TOLERANCES.get(other.dtype.name, 0)
            if not np.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True):
                wrong.append(f"{name}: {one} is not {other}")
    assert wrong == []
    assert not others, "each of these is lowered"
    assert lowered >= FEWEST
