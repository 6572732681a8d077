"""Which elements of an axis a resized axis takes, and with what weights. numpy alone.

Coordinates are computed in float32, in onnxruntime's order of operations, so that a coordinate that
lies between two elements rounds to the same one (docs/adr, 23).

Source: ONNX, Resize; the cubic kernel: Keys, "Cubic convolution interpolation for digital image
processing", equation 4.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["COORDINATES", "NEAREST", "Axis", "Method", "Taps", "nearest", "scales_of_sizes"]

Singles = npt.NDArray[np.float32]
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Axis:
    """An axis before and after it is resized.

    Attributes
    ----------
    old, new : extents.
    scale : the scale that was asked for; ``scale * old`` need not be whole.
    region : the part of the axis that is cropped, in fractions of ``old - 1``.
    """

    old: int
    new: int
    scale: float
    region: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class Taps:
    """Element number i of the new axis is ``sum(weights[i, k] * x[indices[i, k]] for k)``.

    Attributes
    ----------
    indices : (new, K) int32, each inside the axis.
    weights : (new, K) float64.
    outside : (new,) bool: coordinates outside the axis, which tf_crop_and_resize extrapolates.
    """

    indices: npt.NDArray[np.int32]
    weights: Reals
    outside: npt.NDArray[np.bool_]

    @property
    def plain(self) -> bool:
        """Whether each element is one of the old axis."""
        return self.indices.shape[1] == 1 and bool((self.weights == 1).all())

    def applied(self, x: npt.NDArray[Any], dim: int) -> npt.NDArray[Any]:
        """`x` with its axis `dim` resized; in float64 unless the elements stay as they are."""
        if self.plain:
            return x.take(self.indices[:, 0], dim)
        along = [1] * x.ndim
        along[dim] = len(self.indices)
        parts = [
            x.take(index, dim) * weight.reshape(along)
            for index, weight in zip(self.indices.T, self.weights.T, strict=True)
        ]
        return np.asarray(np.sum(parts, axis=0, dtype=np.float64))


def _align_corners(axis: Axis, i: Singles) -> Singles:
    """The length is that of the result, not ``scale * old`` (docs/adr, 23)."""
    if axis.new == 1:
        return i * 0
    return i * np.float32(axis.old - 1) / np.float32(axis.new - 1)


def _half_pixel(axis: Axis, i: Singles) -> Singles:
    return (i + 0.5) / axis.scale - 0.5


def _half_pixel_symmetric(axis: Axis, i: Singles) -> Singles:
    """The offset in float32, what follows in float64."""
    old, scale = np.float32(axis.old), np.float32(axis.scale)
    offset = old / 2 * (1 - np.float32(axis.new) / (scale * old))
    return (float(offset) + (i.astype(np.float64) + 0.5) / float(scale) - 0.5).astype(np.float32)


def _pytorch_half_pixel(axis: Axis, i: Singles) -> Singles:
    return _half_pixel(axis, i) if axis.new > 1 else i * 0


def _crop(axis: Axis, i: Singles) -> Singles:
    start, end = map(np.float32, axis.region)
    last = np.float32(axis.old - 1)
    if axis.new == 1:
        return i * 0 + (start + end) * last / np.float32(2)
    return start * last + i * (end - start) * last / np.float32(axis.new - 1)


COORDINATES: Mapping[str, Callable[[Axis, Singles], Singles]] = {
    "align_corners": _align_corners,
    "asymmetric": lambda axis, i: i / axis.scale,
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_crop_and_resize": _crop,
    "tf_half_pixel_for_nn": lambda axis, i: (i + 0.5) / axis.scale,
}
"""By coordinate_transformation_mode: the coordinate in the old axis of element i of the new one."""

TIE = 1e-6
"""A coordinate this close to the middle of two elements lies there, as in onnxruntime 1.32."""

NEAREST: Mapping[str, Callable[[Reals], Reals]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": lambda x: np.floor(x) + (x - np.floor(x) >= 0.5 - TIE),
    "round_prefer_floor": lambda x: np.floor(x) + (x - np.floor(x) > 0.5 + TIE),
}
"""By nearest_mode."""


def _coordinates(axis: Axis, mode: str) -> tuple[Reals, npt.NDArray[np.bool_]]:
    found = COORDINATES[mode](axis, np.arange(axis.new, dtype=np.float32)).astype(np.float64)
    outside = (found < 0) | (found > axis.old - 1)
    return found, outside & (mode == "tf_crop_and_resize")


def nearest(axis: Axis, mode: str, rounding: str) -> Taps:
    """One element for each: that which `rounding`, a key of `NEAREST`, chooses."""
    x, outside = _coordinates(axis, mode)
    places = np.clip(NEAREST[rounding](x), 0, axis.old - 1).astype(np.int32)
    return Taps(places[:, None], np.ones((axis.new, 1)), outside)


def _triangle(distance: Reals) -> Reals:
    return np.maximum(1 - distance, 0)


def _cubic(distance: Reals, a: float) -> Reals:
    inner = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    outer = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return np.where(distance <= 1, inner, np.where(distance < 2, outer, 0))


def _interpolated(
    axis: Axis, mode: str, cubic: float | None, *, antialias: bool, exclude_outside: bool
) -> Taps:
    """The elements around each coordinate, weighted by their distance from it.

    Parameters
    ----------
    cubic : the coefficient a of Keys' kernel; None interpolates linearly.
    antialias : widens the kernel by 1 / scale where the axis shrinks.
    exclude_outside : whether elements outside weigh nothing; else the first or last one repeats.
    """
    x, outside = _coordinates(axis, mode)
    narrowing = min(axis.scale, 1.0) if antialias else 1.0
    radius = 1 if cubic is None else 2
    first = int(np.floor(-radius / narrowing)) + 1
    places = np.floor(x)[:, None] + np.arange(first, 2 - first)
    distance = np.abs(places - x[:, None]) * narrowing
    weights = _triangle(distance) if cubic is None else _cubic(distance, cubic)
    if exclude_outside:
        weights = np.where((places < 0) | (places >= axis.old), 0, weights)
    total = weights.sum(axis=1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    used = (weights != 0).any(axis=0)
    indices = np.clip(places, 0, axis.old - 1).astype(np.int32)
    return Taps(indices[:, used], weights[:, used], outside)


@dataclass(frozen=True)
class Method:
    """How elements between others are made: attributes of Resize."""

    mode: str = "nearest"
    coordinates: str = "asymmetric"
    rounding: str = "floor"
    cubic: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False

    def taps(self, axis: Axis) -> Taps:
        """What the elements of a resized axis are made of."""
        if self.mode == "nearest":
            return nearest(axis, self.coordinates, self.rounding)
        return _interpolated(
            axis,
            self.coordinates,
            self.cubic if self.mode == "cubic" else None,
            antialias=self.antialias,
            exclude_outside=self.exclude_outside,
        )


def scales_of_sizes(sizes: Sequence[int], extents: Sequence[int], policy: str) -> list[float]:
    """The scale of each axis from its new and old extents, by keep_aspect_ratio_policy."""
    scales = [size / extent for size, extent in zip(sizes, extents, strict=True)]
    if policy == "stretch":
        return scales
    return [min(scales) if policy == "not_larger" else max(scales)] * len(scales)
