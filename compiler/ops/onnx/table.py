"""The table of ONNX operators with a tensor expression."""

from collections.abc import Mapping

from daedal.compiler.ops.onnx import (
    activations,
    attention,
    casts,
    convolution,
    elementwise,
    gather,
    generation,
    grid,
    masks,
    movement,
    normalization,
    padding,
    pooling,
    products,
    quantization,
    recurrent,
    reductions,
    resize,
)
from daedal.compiler.ops.onnx.operation import Lowering

__all__ = ["ELEMENTWISE", "LOWERINGS"]

LOWERINGS: Mapping[str, Lowering] = {
    **activations.LOWERINGS,
    **attention.LOWERINGS,
    **casts.LOWERINGS,
    **convolution.LOWERINGS,
    **elementwise.LOWERINGS,
    **gather.LOWERINGS,
    **generation.LOWERINGS,
    **grid.LOWERINGS,
    **masks.LOWERINGS,
    **movement.LOWERINGS,
    **normalization.LOWERINGS,
    **padding.LOWERINGS,
    **pooling.LOWERINGS,
    **products.LOWERINGS,
    **quantization.LOWERINGS,
    **recurrent.LOWERINGS,
    **reductions.LOWERINGS,
    **resize.LOWERINGS,
}
"""By operator of the standard domain."""

ELEMENTWISE = frozenset(
    name
    for name in ("Cast", *activations.LOWERINGS, *elementwise.LOWERINGS)
    if not name.startswith("Bit")
)
"""Operators that compute each element of their result from one element of each operand. Those of
the bits of integers are left out: no real number is behind them."""
