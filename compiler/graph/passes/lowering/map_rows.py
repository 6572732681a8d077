"""`over_last_axis`: an integer operator on the rows of a tensor, which become pixels of a map."""

import math
from collections.abc import Sequence

from daedal.compiler.graph.graph import Attrs, AttrValue, Node
from daedal.compiler.graph.passes.lowering.lowering_context import LoweringContext

__all__ = ["over_last_axis"]


def over_last_axis(
    context: LoweringContext,
    node: Node,
    op: str,
    x: str,
    operands: Sequence[str],
    attrs: Attrs,
    output: str,
) -> str:
    """Add `op` for the float operator `node`, on the rows of `x` (..., rows, channels) as a map
    (images, channels, rows, 1)."""
    builder = context.builder
    shape = context.graph.types[node.output].shape
    *outer, channels = shape
    rows = outer[-1] if outer else 1
    images = math.prod(outer[:-1])

    def view(op: str, name: str, attrs: dict[str, AttrValue], result: str) -> str:
        return builder.add(op, [name], attrs, output=result)

    def fresh(role: str) -> str:
        return builder.fresh_name(f"{output}.{role}")

    order: dict[str, AttrValue] = {"order": (0, 2, 1)}
    stacked = view("reshape", x, {"shape": (images, rows, channels)}, fresh("rows"))
    turned = view("transpose", stacked, order, fresh("turned"))
    maps = view("reshape", turned, {"shape": (images, channels, rows, 1)}, fresh("operand"))
    result = builder.add(op, [maps, *operands], attrs, output=fresh("map"), name=node.name)
    flat = view("reshape", result, {"shape": (images, channels, rows)}, fresh("columns"))
    if shape == (images, rows, channels):
        return view("transpose", flat, order, output)
    back = view("transpose", flat, order, fresh("result"))
    return view("reshape", back, {"shape": shape}, output)
