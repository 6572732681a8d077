"""Convolutions of one to three dimensions: grouped, dilated, transposed, on integers."""

from collections.abc import Mapping

from daedal.compiler.ops.onnx.operation import Lowering

__all__ = ["LOWERINGS"]

LOWERINGS: Mapping[str, Lowering] = {}
"""By operator."""
