"""All operators of ONNX with an importer, by name; all others of the standard domain run on the
host."""

from collections.abc import Mapping

from daedal.compiler.frontend.operators import (
    convolution,
    einsum,
    elementwise,
    movement,
    normalization,
    pooling,
    quantization,
    reduction,
    resize,
    shape,
)
from daedal.compiler.frontend.operators.record import ImportedOperator

__all__ = ["OPERATORS"]

OPERATORS: Mapping[str, ImportedOperator] = {
    **convolution.OPERATORS,
    **einsum.OPERATORS,
    **elementwise.OPERATORS,
    **movement.OPERATORS,
    **normalization.OPERATORS,
    **pooling.OPERATORS,
    **quantization.OPERATORS,
    **reduction.OPERATORS,
    **resize.OPERATORS,
    **shape.OPERATORS,
}
