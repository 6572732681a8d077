"""ReduceMean and ReduceMax over height and width, or a length: pools whose kernel spans them."""

from collections.abc import Mapping

from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.frontend.operators.maps import SEQUENCE_RANK, as_map
from daedal.compiler.frontend.operators.record import ACCELERATOR, ImportedOperator
from daedal.compiler.graph.graph import AttrValue

__all__ = ["OPERATORS"]


def import_reduce_mean(context: ImportContext, node: OnnxNode) -> None:
    """ReduceMean-1 to -18 over height, width or both of a map, or the length of a sequence, in
    which channels may come last; over no axes it is its operand."""
    _import(context, node, "avg_pool", {"counted_pads": (0, 0, 0, 0)})


def import_reduce_max(context: ImportContext, node: OnnxNode) -> None:
    """ReduceMax-1 to -20, as `import_reduce_mean`."""
    _import(context, node, "max_pool", {})


def _import(context: ImportContext, node: OnnxNode, op: str, extra: dict[str, AttrValue]) -> None:
    """Emit a pool. Channels may come last where all pixels are reduced: axes 1 and 2."""
    x = context.operand_type(node, 0)
    axes = _axes(context, node)
    if node.integer("noop_with_empty_axes", 0) and not axes:
        node.integer("keepdims", 1)
        node.finish()
        context.alias(node.outputs[0], context.operand(node, 0))
        return
    axes = axes or tuple(range(x.rank))
    if x.rank == SEQUENCE_RANK and len(axes) == 1 and axes[0] in (1, 2, -1, -2):
        _import_of_sequence(context, node, op, extra, axes[0] % SEQUENCE_RANK)
        return
    resolved = sorted({axis % x.rank for axis in axes if -x.rank <= axis < x.rank})
    pixels = (1, 2) if resolved == [1, 2] else (2, 3)
    if x.rank != 4 or len(resolved) != len(axes) or not resolved or not set(resolved) <= {*pixels}:
        raise node.refuse(
            "a reduction must be over height, width or both of a map, not axes "
            f"{list(axes)} of {x}",
            "reduce channels on the host",
        )
    kernel = tuple(x.shape[axis] if axis in resolved else 1 for axis in pixels)
    keeps = node.integer("keepdims", 1)
    attrs: dict[str, AttrValue] = {"kernel": kernel, "strides": (1, 1), "pads": (0, 0, 0, 0)}
    attrs.update(extra)
    operand = context.operand(node, 0)
    if keeps and pixels == (2, 3):
        context.emit(node, op, [operand], **attrs)
        return
    if pixels == (1, 2):
        first = context.builder.fresh_name(f"{node.outputs[0]}.channels_first")
        operand = context.builder.add(
            "transpose", [operand], {"order": (0, 3, 1, 2)}, output=first, name=node.name
        )
    pooled = context.builder.fresh_name(f"{node.outputs[0]}.map")
    context.builder.add(op, [operand], attrs, output=pooled, name=node.name)
    extents = (1 if axis in resolved else extent for axis, extent in enumerate(x.shape))
    shape = tuple(extent for axis, extent in enumerate(extents) if keeps or axis not in resolved)
    context.emit(node, "reshape", [pooled], shape=shape)


def _import_of_sequence(
    context: ImportContext, node: OnnxNode, op: str, extra: dict[str, AttrValue], axis: int
) -> None:
    """Emit a pool over the length of a sequence (N, C, L), or (N, L, C): over `axis`."""
    shape = context.operand_type(node, 0).shape
    channels, length = shape[3 - axis], shape[axis]
    keeps = node.integer("keepdims", 1)
    attrs: dict[str, AttrValue] = {"kernel": (1, length), "strides": (1, 1), "pads": (0, 0, 0, 0)}
    attrs.update(extra)
    operand = context.operand(node, 0)
    if axis == 1:
        first = context.builder.fresh_name(f"{node.outputs[0]}.channels_first")
        operand = context.builder.add(
            "transpose", [operand], {"order": (0, 2, 1)}, output=first, name=node.name
        )
    operand = as_map(context, operand)
    pooled = context.builder.fresh_name(f"{node.outputs[0]}.map")
    context.builder.add(op, [operand], attrs, output=pooled, name=node.name)
    kept = (1 if place == axis else extent for place, extent in enumerate(shape))
    result = tuple(kept) if keeps else (shape[0], channels)
    context.emit(node, "reshape", [pooled], shape=result)


def _axes(context: ImportContext, node: OnnxNode) -> tuple[int, ...]:
    """Axes from the attribute, or since opset 18 from the operand; none where none are given."""
    given = node.integers("axes", None)
    if given is None and node.input(1) is not None:
        given = tuple(int(axis) for axis in context.required_constant(node, 1).reshape(-1))
    return given or ()


_REDUCED = (
    "over height, width or both, or over the length of a sequence, also where channels come last; "
    "of maps then over height and width together"
)

OPERATORS: Mapping[str, ImportedOperator] = {
    "ReduceMax": ImportedOperator(import_reduce_max, ACCELERATOR, _REDUCED),
    "ReduceMean": ImportedOperator(import_reduce_mean, ACCELERATOR, _REDUCED),
}
