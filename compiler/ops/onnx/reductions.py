"""Operators that reduce over axes: sums, extremes and their places, softmax."""

from collections.abc import Mapping

from daedal.compiler.ops.onnx.operation import Lowering

__all__ = ["LOWERINGS"]

LOWERINGS: Mapping[str, Lowering] = {}
"""By operator."""
