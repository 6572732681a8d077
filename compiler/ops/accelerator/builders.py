"""Shared by the builders of integer operators: their type, and access to the node's attributes."""

from collections.abc import Callable

from daedal.compiler import te
from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.integer import has_wide_result
from daedal.compiler.graph.ops.registry import ints, whole
from daedal.compiler.ops.accelerator.tiles.template import Template
from daedal.compiler.ops.requantize import Bounds
from daedal.isa.variant import Variant

__all__ = ["Builder", "bounds_of", "pair"]

Builder = Callable[[list[te.Tensor], Node, Variant], Template]
"""From the operands as placeholders, and the node they belong to, to the schedules."""


def bounds_of(node: Node, prefix: str = "") -> Bounds:
    """Zero point and bounds of the node's result or, with `prefix`, of an intermediate result."""
    zero_point, low, high = (
        whole(node.attrs, prefix + name) for name in ("zero_point", "low", "high")
    )
    return Bounds(zero_point, low, high, wide=has_wide_result(node.attrs, prefix))


def pair(node: Node, name: str) -> tuple[int, int]:
    """An attribute of two numbers."""
    first, second = ints(node.attrs, name)
    return first, second
