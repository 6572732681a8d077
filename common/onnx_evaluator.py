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

    own = (_conv_transpose(), _gather_elements(), _resize())
    return ReferenceEvaluator(model, new_ops=[*own, *operators])


@cache
def _conv_transpose() -> "type[OpRun]":
    """Source: ONNX, ConvTranspose-11; the evaluator's own takes the wrong channels of groups."""
    from onnx.reference.ops.op_conv_transpose import ConvTranspose as Own

    class ConvTranspose(Own):
        op_domain = ""

        def _run(  # type: ignore[override]
            self,
            x: npt.NDArray[Any],
            w: npt.NDArray[Any],
            b: npt.NDArray[Any] | None = None,
            group: int | None = None,
            **attributes: Any,
        ) -> tuple[npt.NDArray[Any]]:
            count = group or 1
            biases = [None] * count if b is None else np.split(b, count)
            parts = zip(np.split(x, count, axis=1), np.split(w, count), biases, strict=True)
            results = [
                super(ConvTranspose, self)._run(*part, group=1, **attributes) for part in parts
            ]
            return (np.concatenate([result for (result,) in results], axis=1),)

    return ConvTranspose


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


@cache
def _resize() -> "type[OpRun]":
    """Source: ONNX, Resize-19: align_corners and tf_crop_and_resize count with the length of the
    result; the evaluator's own counts with the scale times the old length, which need not be whole.
    """
    from onnx.reference.ops.op_resize import Resize as Own

    class Resize(Own):
        op_domain = ""

        def _run(  # type: ignore[override]
            self,
            x: npt.NDArray[Any],
            roi: npt.NDArray[Any] | None = None,
            scales: npt.NDArray[Any] | None = None,
            sizes: npt.NDArray[Any] | None = None,
            **attributes: Any,
        ) -> tuple[npt.NDArray[Any]]:
            by_length = ("align_corners", "tf_crop_and_resize")
            mode = attributes.get("coordinate_transformation_mode")
            if mode in by_length and scales is not None and scales.size:
                axes = attributes.get("axes")
                extents = np.take(x.shape, range(x.ndim) if axes is None else axes)
                sizes = np.floor(extents * scales.astype(np.float64)).astype(np.int64)
                scales, attributes["keep_aspect_ratio_policy"] = None, "stretch"
            return tuple(super()._run(x, roi, scales, sizes, **attributes))

    return Resize
