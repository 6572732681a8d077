"""Operators that move elements: transposes, slices, pads, splits and others."""

from collections.abc import Mapping

from daedal.compiler.ops.onnx.operation import Lowering

__all__ = ["LOWERINGS"]

LOWERINGS: Mapping[str, Lowering] = {}
"""By operator."""
