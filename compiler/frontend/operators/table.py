"""All operators of ONNX with an importer, by name; all others of the standard domain run on the
host."""

from collections.abc import Mapping

from daedal.compiler.frontend.operators import (
    convolution,
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

_FAMILIES = (
    convolution,
    elementwise,
    movement,
    normalization,
    pooling,
    quantization,
    reduction,
    resize,
    shape,
)

OPERATORS: Mapping[str, ImportedOperator] = {
    name: operator for family in _FAMILIES for name, operator in sorted(family.OPERATORS.items())
}
