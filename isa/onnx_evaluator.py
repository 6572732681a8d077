"""ONNX's reference evaluator, with operators of our own where its fail.

`onnx` is imported when a model is to be run: the rest of this package needs numpy alone.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import onnx
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

__all__ = ["evaluator_of"]


def evaluator_of(model: "onnx.ModelProto", *operators: "type[OpRun]") -> "ReferenceEvaluator":
    """The evaluator of a model, with `operators` besides ONNX's."""
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model, new_ops=[_gather_elements(), *operators])


@cache
def _gather_elements() -> "type[OpRun]":
    """Source: ONNX, GatherElements-13; the evaluator's own takes an axis of 64 elements at most."""
    from onnx.reference.op_run import OpRun

    class GatherElements(OpRun):
        op_domain = ""

        def _run(
            self, data: npt.NDArray[Any], indices: npt.NDArray[Any], axis: int | None = None
        ) -> tuple[npt.NDArray[Any]]:
            place = (axis or 0) % data.ndim
            used = [slice(extent) for extent in indices.shape]
            used[place] = slice(None)
            return (np.take_along_axis(data[tuple(used)], indices, place),)

    return GatherElements
