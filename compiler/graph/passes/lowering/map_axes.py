"""Operators on tensors of up to four dimensions as operators on maps (N, C, H, W).

Tensors of fewer dimensions become maps by adding dimensions of 1: sequences (N, C, L) get height 1,
all others rows and columns. Tensors with channels last, as TensorFlow has them, are transposed:
transposes that meet cancel each other.
"""

from dataclasses import replace

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import AttrValue, Graph, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.ops.registry import ints, runs_on
from daedal.compiler.graph.passes.lowering.lowering_context import LoweringContext
from daedal.compiler.graph.passes.lowering.requantization import QuantizedTensor
from daedal.compiler.graph.views import has_channels_last, source_of
from daedal.compiler.targets.names import ACCELERATOR

__all__ = [
    "CHANNELS_FIRST",
    "CHANNELS_LAST",
    "as_channels_first",
    "channels_first",
    "is_channels_last",
    "of_map",
    "on_map",
]

CHANNELS_FIRST, CHANNELS_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
"""Orders of the axes of a map."""


def is_channels_last(context: LoweringContext, node: Node, operands: list[QuantizedTensor]) -> bool:
    """Whether to transpose the operands of `node`, all of four dimensions, to maps.

    They are views of maps with the channels last, or the host supplies them; or it supplies all,
    and all readers of the result transpose that to maps.
    """
    builder = context.builder
    if any(builder.types[x.name].rank != MAP_RANK for x in operands):
        return False
    last = [has_channels_last(builder, x.name) for x in operands]
    given = [not _is_accelerated(builder, source_of(builder, x.name)[0]) for x in operands]
    if any(last):
        return all(a or b for a, b in zip(last, given, strict=True))
    return all(given) and _feeds_channels_first(context.graph, node.output)


def _is_accelerated(builder: GraphBuilder, name: str) -> bool:
    producer = builder.producer(name)
    return producer is not None and runs_on(producer.op, ACCELERATOR)


_KEEP_AXES = ("clip", "concat", "dequantize", "pad", "quantize", "relu", "resize", "slice")


def _feeds_channels_first(graph: Graph, name: str) -> bool:
    """Whether all readers of a tensor transpose it to (N, C, H, W), also behind operators that
    leave the axes in their order."""
    users = graph.users[name]
    return (
        bool(users)
        and name not in graph.outputs
        and all(
            ints(user.attrs, "order") == CHANNELS_FIRST
            if user.op == "transpose"
            else user.op in _KEEP_AXES and _feeds_channels_first(graph, user.output)
            for user in users
        )
    )


def channels_first(values: tuple[int, ...]) -> tuple[int, ...]:
    """Values of the axes (N, H, W, C) in the order (N, C, H, W)."""
    return tuple(values[axis] for axis in CHANNELS_FIRST)


def as_channels_first(context: LoweringContext, x: QuantizedTensor) -> QuantizedTensor:
    """The map of a view with channels last."""
    output = context.builder.fresh_name(f"{x.name}.map")
    order: dict[str, AttrValue] = {"order": CHANNELS_FIRST}
    return replace(x, name=context.builder.add("transpose", [x.name], order, output=output))


def of_map(values: tuple[int, ...], fill: int) -> tuple[int, ...]:
    """The values of a tensor's dimensions as those of its map, with `fill` for each new one."""
    if len(values) == MAP_RANK - 1:
        return (*values[:2], fill, *values[2:])
    return values + (fill,) * (MAP_RANK - len(values))


def on_map(
    context: LoweringContext,
    node: Node,
    op: str,
    operands: list[QuantizedTensor],
    params: str,
    attrs: dict[str, AttrValue],
    output: str,
    *,
    last: bool = False,
) -> str:
    """Add an operator on maps, between reshapes if its tensors have fewer dimensions.

    Its result is named `output` unless the final reshape needs that name. With `last`, the operands
    are transposed to maps, and the result back.
    """
    builder = context.builder
    if last:
        inner = builder.fresh_name(f"{output}.map")
        names = [as_channels_first(context, x).name for x in operands]
        builder.add(op, [*names, params], attrs, output=inner, name=node.name)
        return builder.add("transpose", [inner], {"order": CHANNELS_LAST}, output=output)
    shape = context.graph.types[node.output].shape
    if len(shape) == MAP_RANK:
        names = [x.name for x in operands]
        return builder.add(op, [*names, params], attrs, output=output, name=node.name)
    maps = []
    for x in operands:
        wide = of_map(builder.types[x.name].shape, 1)
        lifted = builder.fresh_name(f"{x.name}.map")
        maps.append(builder.add("reshape", [x.name], {"shape": wide}, output=lifted))
    inner, outer = output, builder.fresh_name(f"{output}.flat")
    if output in context.graph.outputs:
        inner, outer = builder.fresh_name(f"{output}.map"), output
    builder.add(op, [*maps, params], attrs, output=inner, name=node.name)
    return builder.add("reshape", [inner], {"shape": shape}, output=outer)
