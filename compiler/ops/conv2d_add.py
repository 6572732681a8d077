"""A convolution and the addition that is its only reader, on blocked tensors."""

from collections.abc import Sequence

from daedal.compiler import te
from daedal.compiler.ops.conv2d import conv2d
from daedal.compiler.ops.elementwise import add
from daedal.compiler.ops.requantize import Bounds

__all__ = ["conv2d_add"]


def conv2d_add(
    x: te.Tensor,
    w: te.Tensor,
    conv_params: te.Tensor,
    skip: te.Tensor,
    params: te.Tensor,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    pad_value: int,
    conv_bounds: Bounds,
    multiplier_conv: int,
    multiplier_skip: int,
    bounds: Bounds,
    accumulator: str = "int32",
) -> te.Tensor:
    """``add(conv2d(x, w, conv_params), skip, params)``, with the rounding of both.

    Parameters
    ----------
    x, w, conv_params, strides, pads, dilations, pad_value, conv_bounds : as `conv2d` has them.
    skip, params, multiplier_conv, multiplier_skip, bounds : as `add` has them.

    Returns
    -------
    ``y``, of the shape of `skip`; on the way are the tensors of both, the result of the convolution
    as ``conv``.
    """
    conv = conv2d(
        x,
        w,
        conv_params,
        strides=strides,
        pads=pads,
        dilations=dilations,
        pad_value=pad_value,
        bounds=conv_bounds,
        accumulator=accumulator,
        name="conv",
    )
    return add(
        conv,
        skip,
        params,
        multiplier_a=multiplier_conv,
        multiplier_b=multiplier_skip,
        bounds=bounds,
        accumulator=accumulator,
    )
