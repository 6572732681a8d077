"""The report: where each node of a model runs, and why it does not run on the accelerator."""

from collections.abc import Mapping

import onnx

from daedal.compiler.artifact.products import count_products
from daedal.compiler.frontend.cut import ModelCutter, is_static
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.ops.foreign import names_read
from daedal.compiler.graph.passes.integer_rules import RULES
from daedal.isa.artifact import Placement

__all__ = ["place_nodes"]

_QUANTIZATION = ("DequantizeLinear", "QuantizeLinear")

_BORDER = "host and accelerator meet here"
_DYNAMIC = "its shape or type is known only when it runs"
_FOREIGN = "the accelerator has no such operator"
_UNQUANTIZED = "it does not stand between DequantizeLinear and QuantizeLinear"
_SHAPES = "both operands must be quantized, and one must have the shape of the result"
_MOVES = "only channels, rows and columns move, of tensors of up to four dimensions"
_REASONS = {
    "add": _SHAPES,
    "concat": _MOVES,
    "mul": _SHAPES,
    "pad": _MOVES,
    "q_lookup": "the ALU of no variant has a table",
    "reshape": "it only tells in which order the host reads the elements",
    "resize": _MOVES,
    "slice": _MOVES,
    "sub": _SHAPES,
    "transpose": "LOAD and STORE move whole rows and cannot transpose",
}
"""Why an operator of the graph cannot run on the accelerator, where nothing more is known."""


def place_nodes(
    cutter: ModelCutter,
    imported: Graph,
    graph: Graph,
    on_accelerator: Mapping[int, tuple[int, str]],
    on_host: Mapping[int, int],
    reasons: Mapping[str, str],
) -> tuple[Placement, ...]:
    """One placement for each node of the model.

    Parameters
    ----------
    imported, graph : before and after all passes; `onnx` nodes say why they are foreign.
    on_accelerator : the artifact's part and the layer by number of the model's node.
    on_host : the artifact's part. A node that is in both runs on the host, too.
    reasons : by quantized tensor, why what it quantizes was left to the host.
    """
    of_tables = {
        node.output: _REASONS[node.op]
        for node in graph.nodes
        if node.op in _REASONS and node.output in cutter.producers
    }
    by_tensor = _reasons_by_tensor(cutter, {**of_tables, **reasons})
    return tuple(
        _place(cutter, imported, graph, number, on_accelerator, on_host, by_tensor)
        for number in range(len(cutter.nodes))
    )


def _place(
    cutter: ModelCutter,
    imported: Graph,
    graph: Graph,
    number: int,
    on_accelerator: Mapping[int, tuple[int, str]],
    on_host: Mapping[int, int],
    reasons: Mapping[str, str],
) -> Placement:
    node = cutter.nodes[number]
    output = next((name for name in node.output if name), "")
    where, why, layer = "folded", "", ""
    part: int | None = None
    if number in on_host:
        where, why = "host", _why(cutter, imported, graph, node, output, reasons)
        part = on_host[number]
    elif number in on_accelerator and node.op_type not in _QUANTIZATION:
        where = "accelerator"
        part, layer = on_accelerator[number]
    return Placement(
        node=node.name or output,
        op=node.op_type,
        output=output,
        where=where,
        why=why,
        macs=count_products(node, lambda name: _shape(cutter, name)),
        part=part,
        layer=layer,
    )


def _why(
    cutter: ModelCutter,
    imported: Graph,
    graph: Graph,
    node: onnx.NodeProto,
    output: str,
    reasons: Mapping[str, str],
) -> str:
    if node.op_type in _QUANTIZATION:
        return _BORDER
    if output in cutter.constants:
        return "it is constant"
    if output in reasons:
        return reasons[output]
    if output not in imported.types:
        return _DYNAMIC
    made = graph.producers.get(output, imported.producers.get(output))
    if made is None:
        return _UNQUANTIZED
    if made.note or made.op in _REASONS:
        return made.note or _REASONS[made.op]
    return _UNQUANTIZED if made.op in RULES else _FOREIGN


def _reasons_by_tensor(cutter: ModelCutter, reasons: Mapping[str, str]) -> dict[str, str]:
    """Reasons by every float tensor between the quantized ones."""
    found: dict[str, str] = {}
    for quantized, reason in reasons.items():
        stack = [quantized]
        while stack:
            number = cutter.producers.get(stack.pop())
            if number is None:
                continue
            node = cutter.nodes[number]
            fresh = [name for name in names_read(node) if name not in found]
            if node.op_type != "DequantizeLinear":
                found.update(dict.fromkeys(fresh, reason))
                stack.extend(fresh)
    return found


def _shape(cutter: ModelCutter, name: str) -> tuple[int, ...] | None:
    """The static shape of a tensor, where it is known."""
    if name in cutter.initializers:
        return tuple(cutter.initializers[name].dims)
    value = cutter.types.get(name)
    if value is None or not is_static(value.type.tensor_type):
        return None
    return tuple(int(dim.dim_value) for dim in value.type.tensor_type.shape.dim)
