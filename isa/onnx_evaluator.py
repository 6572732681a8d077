"""ONNX's reference evaluator, with operators of our own where its fail."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

__all__ = ["evaluator_of"]


class GatherElements(OpRun):
    """Source: ONNX, GatherElements-13; the evaluator's own takes an axis of 64 elements at most."""

    op_domain = ""

    def _run(
        self, data: npt.NDArray[Any], indices: npt.NDArray[Any], axis: int | None = None
    ) -> tuple[npt.NDArray[Any]]:
        place = (axis or 0) % data.ndim
        used = [slice(extent) for extent in indices.shape]
        used[place] = slice(None)
        return (np.take_along_axis(data[tuple(used)], indices, place),)


def evaluator_of(model: onnx.ModelProto, *operators: type[OpRun]) -> ReferenceEvaluator:
    """The evaluator of a model, with `operators` besides ONNX's."""
    return ReferenceEvaluator(model, new_ops=[GatherElements, *operators])
