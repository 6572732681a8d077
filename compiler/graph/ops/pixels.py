"""Views of blocked maps whose channels are one block: pixels as images, and the reverse.

In memory, such a map is one vector for each pixel of each image, so both have the same bytes.
"""

import numpy as np

from daedal.compiler.graph.layout import ActivationLayout
from daedal.compiler.graph.ops.integer import check_activation
from daedal.compiler.graph.ops.registry import Array, Arrays, Attrs, Types, define, whole
from daedal.compiler.graph.types import TensorType
from daedal.compiler.targets.names import ACCELERATOR

__all__: list[str] = []


def _check(x: TensorType) -> None:
    check_activation(x, wide=True)
    assert x.rank == 4 and x.shape[3] == 1, f"{x} has no column of pixels"
    if isinstance(x.layout, ActivationLayout):
        one_block = x.layout.batch == 1 and x.shape[1] == x.layout.block
        assert one_block, f"pixels of {x} cannot lie as images"


def _infer_to_images(operands: Types, attrs: Attrs) -> TensorType:
    (x,) = operands
    _check(x)
    images, channels, pixels, _ = x.shape
    return TensorType((images * pixels, channels, 1, 1), x.dtype, x.layout)


def _infer_to_pixels(operands: Types, attrs: Attrs) -> TensorType:
    (x,) = operands
    _check(x)
    images, channels, height, _ = x.shape
    pixels = whole(attrs, "pixels")
    assert height == 1 and images % pixels == 0, f"{x} has no {pixels} images for each"
    return TensorType((images // pixels, channels, pixels, 1), x.dtype, x.layout)


def _evaluate_to_images(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Each pixel of a map of one block of channels as an image."""
    (x,) = arrays
    shape = _infer_to_images(types, attrs).physical_shape
    if not types[0].is_plain:
        return x.reshape(shape)
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(shape)


def _evaluate_to_pixels(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Images of one pixel and one block of channels as pixels of fewer images."""
    (x,) = arrays
    result = _infer_to_pixels(types, attrs)
    if not types[0].is_plain:
        return x.reshape(result.physical_shape)
    images, channels, pixels, _ = result.shape
    split = x.reshape(images, pixels, channels, 1)
    return np.ascontiguousarray(split.transpose(0, 2, 1, 3))


define(
    "pixels_to_images",
    ("x",),
    {},
    _infer_to_images,
    _evaluate_to_images,
    targets=(ACCELERATOR,),
    is_view=True,
)
define(
    "images_to_pixels",
    ("x",),
    {"pixels": "int"},
    _infer_to_pixels,
    _evaluate_to_pixels,
    targets=(ACCELERATOR,),
    is_view=True,
)
