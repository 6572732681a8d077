"""Resize and Upsample, by the nearest neighbour."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.common.resampling import COORDINATES, NEAREST, Axis, nearest
from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.frontend.operators.record import ACCELERATOR, FLOAT, HOST, ImportedOperator

__all__ = ["OPERATORS"]

Array = npt.NDArray[Any]

_TRANSFORMS = sorted(COORDINATES.keys() - {"tf_crop_and_resize"})

_MAX_SCALE = _MAX_EXTENT = 1 << 16
"""Bounds on what an untrusted model may ask for."""


def import_upsample(context: ImportContext, node: OnnxNode) -> None:
    """Upsample-7 (scales as attribute) and -9 (as constant operand), mode nearest."""
    node.expect(mode="nearest")
    scales: Array | tuple[float, ...] | None = node.reals("scales")
    if scales is None:
        scales = context.required_constant(node, 1).reshape(-1)
    _import(context, node, _scaled(context, node, scales), "asymmetric", "floor")


def import_resize(context: ImportContext, node: OnnxNode) -> None:
    """Resize-10 to -19, mode nearest.

    Source: ONNX Resize-13, coordinate_transformation_mode and nearest_mode.
    """
    node.expect(mode="nearest", exclude_outside=0, antialias=0)
    for name in ("cubic_coeff_a", "extrapolation_value"):
        node.real(name, 0.0)
    if context.opset < 11:
        scales = context.required_constant(node, 1).reshape(-1)
        _import(context, node, _scaled(context, node, scales), "asymmetric", "floor")
        return
    transform = node.text("coordinate_transformation_mode", "half_pixel")
    rounding = node.text("nearest_mode", "round_prefer_floor")
    if rounding not in NEAREST or transform not in _TRANSFORMS:
        raise node.refuse(
            f"a resize must go by one of {', '.join(_TRANSFORMS)} and of "
            f"{', '.join(NEAREST)}, not {transform} and {rounding}",
            "export the model with one of these",
        )
    if node.input(2) is not None and context.required_constant(node, 2).size:
        scales = context.required_constant(node, 2).reshape(-1)
        found = _scaled(context, node, scales)
    else:
        sizes = context.required_constant(node, 3).reshape(-1)
        shape = context.operand_type(node, 0).shape
        _check_length(node, len(sizes), len(shape))
        found = [(int(size), int(size) / extent) for size, extent in zip(sizes, shape, strict=True)]
    _import(context, node, found, transform, rounding)


def _scaled(
    context: ImportContext, node: OnnxNode, scales: Array | tuple[float, ...]
) -> list[tuple[int, float]]:
    """Output extent and scale of every axis."""
    shape = context.operand_type(node, 0).shape
    _check_length(node, len(scales), len(shape))
    if not all(0 < float(scale) <= _MAX_SCALE for scale in scales):
        raise node.damaged(
            f"scales must be positive and at most {_MAX_SCALE}, not "
            f"{[float(scale) for scale in scales]}"
        )
    return [
        (int(np.floor(extent * float(scale))), float(scale))
        for extent, scale in zip(shape, scales, strict=True)
    ]


def _check_length(node: OnnxNode, count: int, rank: int) -> None:
    if count != rank:
        raise node.damaged(f"scales and sizes must be one per dimension of {rank}, not {count}")


def _import(
    context: ImportContext,
    node: OnnxNode,
    targets: list[tuple[int, float]],
    transform: str,
    rounding: str,
) -> None:
    """Emit a resize if every element is repeated equally often, or a slice if elements are skipped
    in equal steps."""
    x = context.operand_type(node, 0)
    if any(not 0 < size <= _MAX_EXTENT for size, _ in targets):
        raise node.damaged(
            f"a resize must leave 1 to {_MAX_EXTENT} elements of an axis, not "
            f"{[size for size, _ in targets]}"
        )
    indices = []
    for extent, (size, scale) in zip(x.shape, targets, strict=True):
        indices.append(nearest(Axis(extent, size, scale), transform, rounding).indices[:, 0])
    operand = context.operand(node, 0)
    factors = tuple(
        max(1, len(index) // extent) for index, extent in zip(indices, x.shape, strict=True)
    )
    repeated = [np.repeat(np.arange(n), factor) for n, factor in zip(x.shape, factors, strict=True)]
    if all(map(np.array_equal, indices, repeated)):
        context.emit(node, "resize", [operand], factors=factors)
        return
    begins = tuple(int(index[0]) for index in indices)
    steps = tuple(max(1, int(index[1] - index[0])) if len(index) > 1 else 1 for index in indices)
    ends = tuple(int(index[-1]) + 1 for index in indices)
    taken = [np.arange(*part) for part in zip(begins, ends, steps, strict=True)]
    if not all(map(np.array_equal, indices, taken)):
        raise node.refuse(
            "a nearest resize must repeat every element equally often, or skip equally many, not "
            f"make {[size for size, _ in targets]} of {list(x.shape)}",
            "use whole factors",
        )
    context.emit(node, "slice", [operand], begins=begins, ends=ends, steps=steps)


OPERATORS: Mapping[str, ImportedOperator] = {
    "Resize": ImportedOperator(
        import_resize, ACCELERATOR, "nearest, height and width by whole factors"
    ),
    "Upsample": ImportedOperator(
        import_upsample, HOST, f"{FLOAT}: its opsets have no quantization"
    ),
}
