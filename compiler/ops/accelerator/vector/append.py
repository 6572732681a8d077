"""Lowering of `q_append`: new rows are copied to where they lie in a state."""

from math import prod

from daedal.compiler import te
from daedal.compiler.codegen.memory_view import MemoryView
from daedal.compiler.codegen.scheduled_function import ScheduledFunction
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.integer import UNCHANGED
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.ops.accelerator.tiles.template import TileTemplate
from daedal.compiler.ops.accelerator.vector.elementwise_builders import ELEMENTWISE
from daedal.compiler.ops.accelerator.vector.vector import move_template
from daedal.compiler.ops.space import Config
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["append_function", "append_template"]


def append_function(
    graph: Graph, node: Node, variant: Variant, config: Config | None = None
) -> ScheduledFunction:
    """The scheduled copy, whose result is a strided view of the state."""
    _, new, params = node.inputs
    tensors = {"x": new, "params": params, "y": node.output}
    schedule = append_template(graph, node, variant).schedule(config)
    return ScheduledFunction(schedule, tensors, {"y": _view(graph, node, variant)})


def append_template(graph: Graph, node: Node, variant: Variant) -> TileTemplate:
    """The schedules of the copy, whose values stay."""
    _, new, params = (graph.types[name] for name in node.inputs)
    *outer, batch, block = new.physical_shape
    lanes = variant.array.block_out
    operands = [
        te.placeholder((*outer, block // lanes, batch, lanes), new.dtype, "x"),
        te.placeholder(params.physical_shape, params.dtype, "params"),
    ]
    copy = Node("q_requantize", node.inputs[1:], (node.output,), UNCHANGED, node.name)
    y = ELEMENTWISE[copy.op](operands, copy, variant)
    return move_template(te.create_prim_func(operands, [y], node.output), variant)


def _view(graph: Graph, node: Node, variant: Variant) -> MemoryView:
    """Where the new rows lie in the state: (NB, CB, H, W, U) in beats."""
    images, blocks, height, width, _, block = graph.types[node.output].physical_shape
    pad = scratchpad(variant, Memory.OUT)
    vectors = block // variant.array.block_out
    axis, begin = whole(node.attrs, "axis"), whole(node.attrs, "begin")
    vector = pad.row_beats(variant)
    pixel = vectors * vector
    strides = (
        blocks * height * width * pixel,
        height * width * pixel,
        width * pixel,
        pixel,
        vector,
    )
    first = begin // block * strides[1] if axis == 1 else begin * strides[2]
    size = prod((images, blocks, height, width, vectors)) * pad.row_bytes
    return MemoryView(strides, size, first)
