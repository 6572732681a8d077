"""MaxPool, AveragePool and their global forms."""

from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.frontend.operators.windows import resolve_pads, window_attribute
from daedal.compiler.graph.graph import AttrValue
from daedal.compiler.graph.types import TensorType

__all__ = [
    "import_average_pool",
    "import_global_average_pool",
    "import_global_max_pool",
    "import_max_pool",
]


def import_max_pool(context: ImportContext, node: OnnxNode) -> None:
    """MaxPool-1 to -12 without indices, dilation and ceil_mode."""
    node.expect(storage_order=0)
    attrs = _window(context, node)
    context.emit(node, "max_pool", [context.operand(node, 0)], **attrs)


def import_average_pool(context: ImportContext, node: OnnxNode) -> None:
    """AveragePool-7 to -22 without dilation and ceil_mode."""
    attrs = _window(context, node)
    counted = int(node.integer("count_include_pad", 0) != 0)
    context.emit(node, "avg_pool", [context.operand(node, 0)], **attrs, count_include_pad=counted)


def import_global_average_pool(context: ImportContext, node: OnnxNode) -> None:
    """GlobalAveragePool-1: a pool whose kernel is the map."""
    attrs = _whole_map(_map_type(context, node))
    context.emit(node, "avg_pool", [context.operand(node, 0)], **attrs, count_include_pad=0)


def import_global_max_pool(context: ImportContext, node: OnnxNode) -> None:
    """GlobalMaxPool-1: a pool whose kernel is the map."""
    attrs = _whole_map(_map_type(context, node))
    context.emit(node, "max_pool", [context.operand(node, 0)], **attrs)


def _map_type(context: ImportContext, node: OnnxNode) -> TensorType:
    x = context.operand_type(node, 0)
    if x.rank != 4:
        raise node.refuse(
            f"pooling must be two-dimensional, not over {x}", "reshape to (N, C, H, W)"
        )
    return x


def _whole_map(x: TensorType) -> dict[str, AttrValue]:
    return {"kernel": x.shape[2:], "strides": (1, 1), "pads": (0, 0, 0, 0)}


def _window(context: ImportContext, node: OnnxNode) -> dict[str, AttrValue]:
    x = _map_type(context, node)
    node.expect(ceil_mode=0)
    kernel = window_attribute(node, "kernel_shape", None)
    strides = window_attribute(node, "strides", (1, 1))
    dilations = window_attribute(node, "dilations", (1, 1))
    if dilations != (1, 1):
        raise node.refuse(
            f"dilations of a pooling must be 1, not {list(dilations)}",
            "export the model without them",
        )
    pads = resolve_pads(node, x.shape[2:], kernel, strides, dilations)
    return {"kernel": kernel, "strides": strides, "pads": pads}
