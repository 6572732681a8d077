"""ONNX's reference evaluator, with operators of our own where its fail.

`onnx` is imported when a model is to be run: the rest of this package needs numpy alone.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from daedal.common.resampling import Axis, Method, scales_of_sizes

if TYPE_CHECKING:
    import onnx
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

__all__ = ["evaluator_of"]


def evaluator_of(model: "onnx.ModelProto", *operators: "type[OpRun]") -> "ReferenceEvaluator":
    """The evaluator of a model, with `operators` besides ONNX's."""
    from onnx.reference import ReferenceEvaluator

    own = [_conv_transpose(), _gather_elements(), _resize()]
    opset = max((item.version for item in model.opset_import if not item.domain), default=1)
    if opset < _LEAST_DEQUANTIZE:
        own.append(_dequantize_linear())
    return ReferenceEvaluator(model, new_ops=[*own, *operators])


_LEAST_DEQUANTIZE = 19
"""The first opset whose DequantizeLinear the evaluator has."""


@cache
def _dequantize_linear() -> "type[OpRun]":
    """Source: ONNX, DequantizeLinear-10 and 13; 10 has no axis."""
    from onnx.reference.op_run import OpRun

    class DequantizeLinear(OpRun):
        op_domain = ""

        def _run(
            self,
            x: npt.NDArray[Any],
            scale: npt.NDArray[Any],
            zero: npt.NDArray[Any] | None = None,
            axis: int | None = None,
            **_: Any,
        ) -> tuple[npt.NDArray[Any]]:
            along = [1] * x.ndim
            if scale.size > 1:
                along[1 if axis is None else axis] = scale.size
            steps = x.astype(np.int64) - (
                0 if zero is None else zero.astype(np.int64).reshape(along)
            )
            return ((steps.astype(np.float32) * scale.reshape(along)).astype(scale.dtype),)

    return DequantizeLinear


@cache
def _conv_transpose() -> "type[OpRun]":
    """Source: ONNX, ConvTranspose-22; the evaluator's own takes the wrong channels of groups, and
    gives results that are larger than the windows reach."""
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
            own: Callable[..., tuple[npt.NDArray[Any]]] = super()._run
            pads, more = _explicit_pads(x.shape[2:], w.shape[2:], attributes)
            count = group or 1
            parts = zip(np.split(x, count, axis=1), np.split(w, count), strict=True)
            sums = [own(*part, group=1, **pads)[0] for part in parts]
            whole = [(0, 0), (0, 0), *((0, extent) for extent in more)]
            result = np.pad(np.concatenate(sums, axis=1), whole)
            if b is not None:
                result += b.reshape(-1, *[1] * len(more))
            return (result,)

    return ConvTranspose


def _explicit_pads(
    extents: Sequence[int], kernel: Sequence[int], attributes: Mapping[str, Any]
) -> tuple[dict[str, list[int]], list[int]]:
    """Attributes of a transposed convolution without auto_pad and output_shape, and the zeros that
    follow its result in each dimension. Pads are never negative.

    Source: ONNX, ConvTranspose-22; onnxruntime, conv_transpose_attributes.h.
    """
    count = len(extents)
    mode = attributes.get("auto_pad") or "NOTSET"
    strides, dilations = (list(attributes.get(n) or [1] * count) for n in ("strides", "dilations"))
    extra = list(attributes.get("output_padding") or [0] * count)
    pads = list(attributes.get("pads") or [0] * 2 * count) if mode == "NOTSET" else [0] * 2 * count
    wanted, more = attributes.get("output_shape"), [0] * count
    for axis in range(count) if mode.startswith("SAME") or wanted else ():
        span = (kernel[axis] - 1) * dilations[axis] + 1
        full = strides[axis] * (extents[axis] - 1) + span + extra[axis]
        out = wanted[axis - count] if wanted else min(extents[axis] * strides[axis], full)
        total, more[axis] = max(full - out, 0), max(out - full, 0)
        before = total // 2 if mode == "SAME_UPPER" else total - total // 2
        pads[axis], pads[axis + count] = before, total - before
    names = ("strides", "dilations", "output_padding", "pads")
    return dict(zip(names, (strides, dilations, extra, pads), strict=True)), more


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
    """Resize-11 and newer by `Method`, as compiled code does it: the evaluator's own differs from
    onnxruntime (docs/adr, 23).

    Source: ONNX, Resize-19.
    """
    from onnx.numpy_helper import saturate_cast
    from onnx.reference.op_run import OpRun

    class Resize(OpRun):
        op_domain = ""

        def _run(
            self,
            x: npt.NDArray[Any],
            roi: npt.NDArray[Any] | None = None,
            scales: npt.NDArray[Any] | None = None,
            sizes: npt.NDArray[Any] | None = None,
            *,
            antialias: int | None = None,
            axes: Sequence[int] | None = None,
            coordinate_transformation_mode: str | None = None,
            cubic_coeff_a: float | None = None,
            exclude_outside: int | None = None,
            extrapolation_value: float | None = None,
            keep_aspect_ratio_policy: str | None = None,
            mode: str | None = None,
            nearest_mode: str | None = None,
        ) -> tuple[npt.NDArray[Any]]:
            coordinates = coordinate_transformation_mode or "half_pixel"
            method = Method(
                mode or "nearest",
                coordinates,
                nearest_mode or "round_prefer_floor",
                -0.75 if cubic_coeff_a is None else cubic_coeff_a,
                bool(antialias),
                bool(exclude_outside),
            )
            dims = [axis % x.ndim for axis in (range(x.ndim) if axes is None else axes)]
            extents = [x.shape[dim] for dim in dims]
            if scales is not None and scales.size:
                factors = [float(scale) for scale in scales]
                wanted = [int(old * scale) for old, scale in zip(extents, factors, strict=True)]
            else:
                assert sizes is not None
                policy = keep_aspect_ratio_policy or "stretch"
                wanted = [int(size) for size in sizes]
                factors = scales_of_sizes(wanted, extents, policy)
                if policy != "stretch":
                    pairs = zip(extents, factors, strict=True)
                    wanted = [int(old * scale + 0.5) for old, scale in pairs]
            regions = np.tile([[0.0], [1.0]], len(dims))
            if coordinates == "tf_crop_and_resize":
                assert roi is not None
                regions = roi.reshape(2, -1)
            result, outside = x, np.zeros([1] * x.ndim, np.bool_)
            for dim, old, new, scale, region in zip(
                dims, extents, wanted, factors, regions.T.tolist(), strict=True
            ):
                taps = method.taps(Axis(old, new, scale, tuple(region)))
                result = taps.applied(result, dim)
                outside = outside | taps.outside.reshape(-1, *[1] * (x.ndim - 1 - dim))
            if outside.any():
                result = np.where(outside, extrapolation_value or 0.0, result)
            return (result if result.dtype == x.dtype else saturate_cast(result, x.dtype),)

    return Resize
