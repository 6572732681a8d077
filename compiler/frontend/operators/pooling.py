"""MaxPool, AveragePool and their global forms."""

from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.frontend.operators.windows import resolve_pads, window_attribute
from daedal.compiler.graph.graph import AttrValue
from daedal.compiler.graph.types import TensorType
from daedal.compiler.windows import window_span

__all__ = [
    "import_average_pool",
    "import_global_average_pool",
    "import_global_max_pool",
    "import_max_pool",
]


def import_max_pool(context: ImportContext, node: OnnxNode) -> None:
    """MaxPool-1 to -12 without indices and dilation."""
    node.expect(storage_order=0)
    attrs, _ = _window(context, node)
    context.emit(node, "max_pool", [context.operand(node, 0)], **attrs)


def import_average_pool(context: ImportContext, node: OnnxNode) -> None:
    """AveragePool-7 to -22 without dilation. Pads count with count_include_pad, but what ceil_mode
    adds never does."""
    attrs, given = _window(context, node)
    counted = given if node.integer("count_include_pad", 0) else (0, 0, 0, 0)
    context.emit(node, "avg_pool", [context.operand(node, 0)], **attrs, counted_pads=counted)


def import_global_average_pool(context: ImportContext, node: OnnxNode) -> None:
    """GlobalAveragePool-1: a pool whose kernel is the map."""
    attrs = _whole_map(_map_type(context, node))
    context.emit(node, "avg_pool", [context.operand(node, 0)], **attrs, counted_pads=(0, 0, 0, 0))


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


_Pads = tuple[int, int, int, int]


def _window(context: ImportContext, node: OnnxNode) -> tuple[dict[str, AttrValue], _Pads]:
    """Attributes of the window, and its pads as the model gives them."""
    x = _map_type(context, node)
    kernel = window_attribute(node, "kernel_shape", None)
    strides = window_attribute(node, "strides", (1, 1))
    dilations = window_attribute(node, "dilations", (1, 1))
    if dilations != (1, 1):
        raise node.refuse(
            f"dilations of a pooling must be 1, not {list(dilations)}",
            "export the model without them",
        )
    given = resolve_pads(node, x.shape[2:], kernel, strides, dilations)
    pads = given
    if node.integer("ceil_mode", 0):
        bottom, right = (
            _ceil_pad(x.shape[2 + axis], kernel[axis], strides[axis], given[axis], given[axis + 2])
            for axis in range(2)
        )
        pads = (given[0], given[1], bottom, right)
    return {"kernel": kernel, "strides": strides, "pads": pads}, given


def _ceil_pad(extent: int, kernel: int, stride: int, before: int, after: int) -> int:
    """The pad after a dimension for which rounding down gives as many windows as ceil_mode.

    The last window may extend beyond the pads, but must begin before the pad `after`.

    Source: ONNX MaxPool-12 and AveragePool-19, ceil_mode.
    """
    if stride < 1 or kernel < 1:
        return after  # the operator's own check refuses it
    num_windows = -(-(extent + before + after - kernel) // stride) + 1
    if (num_windows - 1) * stride >= extent + before:
        num_windows -= 1
    return max(after, window_span(num_windows, kernel, stride) - extent - before)
