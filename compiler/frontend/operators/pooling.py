"""MaxPool, AveragePool and their global forms."""

from collections.abc import Mapping

from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.frontend.operators.maps import as_map, emit_on_map
from daedal.compiler.frontend.operators.record import ACCELERATOR, PLANE, ImportedOperator
from daedal.compiler.frontend.operators.windows import resolve_pads, window_attribute
from daedal.compiler.graph.graph import AttrValue
from daedal.compiler.graph.types import TensorType
from daedal.compiler.graph.window_extents import pool_extent, window_span

__all__ = ["OPERATORS"]


def import_max_pool(context: ImportContext, node: OnnxNode) -> None:
    """MaxPool-1 to -12 without indices and dilation."""
    node.expect(storage_order=0)
    x = _map(context, node)
    attrs, _ = _window(context, node, x)
    emit_on_map(context, node, "max_pool", [x], **attrs)


def import_average_pool(context: ImportContext, node: OnnxNode) -> None:
    """AveragePool-7 to -22 without dilation. Pads count with count_include_pad, but what ceil_mode
    adds never does."""
    x = _map(context, node)
    attrs, given = _window(context, node, x)
    counted = given if node.integer("count_include_pad", 0) else (0, 0, 0, 0)
    emit_on_map(context, node, "avg_pool", [x], **attrs, counted_pads=counted)


def import_global_average_pool(context: ImportContext, node: OnnxNode) -> None:
    """GlobalAveragePool-1: a pool whose kernel is the map."""
    x = _map(context, node)
    attrs = _whole_map(context.builder.types[x])
    emit_on_map(context, node, "avg_pool", [x], **attrs, counted_pads=(0, 0, 0, 0))


def import_global_max_pool(context: ImportContext, node: OnnxNode) -> None:
    """GlobalMaxPool-1: a pool whose kernel is the map."""
    x = _map(context, node)
    emit_on_map(context, node, "max_pool", [x], **_whole_map(context.builder.types[x]))


def _map(context: ImportContext, node: OnnxNode) -> str:
    """The operand as a map."""
    x = context.operand_type(node, 0)
    if x.rank not in (3, 4):
        raise node.refuse(
            f"pooling must be of a sequence (N, C, L) or a map (N, C, H, W), not over {x}",
            "reshape it",
        )
    return as_map(context, context.operand(node, 0))


def _whole_map(x: TensorType) -> dict[str, AttrValue]:
    return {"kernel": x.shape[2:], "strides": (1, 1), "pads": (0, 0, 0, 0)}


_Pads = tuple[int, int, int, int]


def _window(
    context: ImportContext, node: OnnxNode, name: str
) -> tuple[dict[str, AttrValue], _Pads]:
    """Attributes of the window over the map `name`, and its pads as the model gives them."""
    x, axes = context.builder.types[name], context.operand_type(node, 0).rank - 2
    kernel = window_attribute(node, "kernel_shape", None, axes)
    strides = window_attribute(node, "strides", (1, 1), axes)
    dilations = window_attribute(node, "dilations", (1, 1), axes)
    if dilations != (1, 1):
        raise node.refuse(
            f"dilations of a pooling must be 1, not {list(dilations)}",
            "export the model without them",
        )
    mode = node.text("auto_pad", "NOTSET")
    given = resolve_pads(node, x.shape[2:], kernel, strides, dilations, axes, mode)
    # SAME pads take no notice of ceil_mode.
    ceil = bool(node.integer("ceil_mode", 0)) and not mode.startswith("SAME")
    bottom, right = (
        _end_pad(x.shape[2 + dim], kernel[dim], strides[dim], (given[dim], given[dim + 2]), ceil)
        for dim in range(2)
    )
    return {"kernel": kernel, "strides": strides, "pads": (*given[:2], bottom, right)}, given


def _end_pad(extent: int, kernel: int, stride: int, pads: tuple[int, int], ceil: bool) -> int:
    """The pad after a dimension for which rounding down gives as many windows as the pool has."""
    if stride < 1 or kernel < 1:
        return pads[1]  # the operator's own check refuses it
    num_windows = pool_extent(extent, kernel, stride, pads, ceil=ceil)
    return max(pads[1], window_span(num_windows, kernel, stride) - extent - pads[0])


_WINDOW = f"{PLANE}, without dilation"

OPERATORS: Mapping[str, ImportedOperator] = {
    "AveragePool": ImportedOperator(import_average_pool, ACCELERATOR, _WINDOW),
    "GlobalAveragePool": ImportedOperator(import_global_average_pool, ACCELERATOR, PLANE),
    "GlobalMaxPool": ImportedOperator(import_global_max_pool, ACCELERATOR, PLANE),
    "MaxPool": ImportedOperator(import_max_pool, ACCELERATOR, f"{_WINDOW} and without indices"),
}
