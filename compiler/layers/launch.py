"""`compile_launch`: the code of one part for the accelerator, and the program of all its layers.

Input: a graph of integer operators in blocked layouts. Output: a program, its layers, and the
addresses of their results.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from daedal.artifact.artifact import Layer
from daedal.common.errors import ModelError, ScheduleError, UserError
from daedal.compiler.artifact.costs import layer_costs
from daedal.compiler.codegen.segment import Segment
from daedal.compiler.dump import Dump
from daedal.compiler.graph.aliases import aliases_of, row_pitch
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.layout import ActivationLayout, PixelLayout
from daedal.compiler.graph.narrow_weights import narrow_weights
from daedal.compiler.graph.ops.append import Q_APPEND, has_states
from daedal.compiler.graph.ops.integer import (
    IDENTITY,
    PARAMETER_DTYPE,
    element_bits,
    is_wide,
)
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.graph.passes import moves_to_views
from daedal.compiler.graph.passes.value_ranges import copies_elements
from daedal.compiler.graph.stream_layout import RowStreamLayout
from daedal.compiler.graph.table_layout import TableLayout
from daedal.compiler.graph.types import TensorType
from daedal.compiler.graph.unfit import UnfitLayers
from daedal.compiler.layers.layer_code import LayerCode
from daedal.compiler.layers.program_builder import ProgramBuilder
from daedal.compiler.link import Alias, LinkedCode, LinkedProgram, LinkReport, link_code
from daedal.compiler.link.constants import map_bytes, parameter_bytes, table_bytes, weight_bytes
from daedal.compiler.ops.accelerator.lowering import multiplications
from daedal.compiler.ops.accelerator.padding_macs import padding_macs
from daedal.compiler.ops.accelerator.traffic import bytes_once
from daedal.isa.program import Program
from daedal.isa.tensor import TensorSpec
from daedal.isa.variant import Variant

__all__ = ["CompiledLaunch", "compile_launch", "is_move"]


@dataclass(frozen=True)
class CompiledLaunch:
    """A part for the accelerator: its graph, and the program that computes it.

    `results` are the layers' outputs, with their places in memory.
    """

    graph: Graph
    program: Program
    layers: tuple[Layer, ...]
    results: tuple[TensorSpec, ...]
    report: LinkReport


def compile_launch(
    graph: Graph,
    builder: ProgramBuilder,
    code: LayerCode,
    dump: Dump,
    say: Callable[[str], None],
) -> CompiledLaunch:
    """Compile `graph`.

    `code` has the layers of earlier launches, `dump` receives every intermediate form, and `say` is
    called with a sentence before each layer.

    Raises UnfitLayers with the error of every layer that does not fit.
    """
    graph = moves_to_views(graph, block_out=builder.variant.array.block_out)
    dump("moves_to_views", graph)
    nodes = [node for node in graph.nodes if not get_op(node.op).is_view]
    linked, variant = _link(graph, nodes, builder, code, dump, say), builder.variant
    layers = [
        Layer(
            tag=tag,
            name=node.name or node.output,
            op=node.op,
            macs=multiplications(graph, node),
            output=node.output,
            bytes_once=bytes_once(graph, node, variant),
            padding_macs=padding_macs(graph, node),
            costs=layer_costs(graph, node, variant),
        )
        for tag, node in enumerate(nodes)
    ]
    results = tuple(_placed(graph, node.output, linked, variant) for node in nodes)
    return CompiledLaunch(graph, linked.program, tuple(layers), results, linked.report)


def _link(
    graph: Graph,
    nodes: Sequence[Node],
    builder: ProgramBuilder,
    code: LayerCode,
    dump: Dump,
    say: Callable[[str], None],
) -> LinkedProgram:
    variant = builder.variant
    for name in graph.outputs:
        if name in graph.inputs:
            raise ModelError(f"a compiled part must compute its outputs; {name!r} is also an input")
    inputs = [_spec(graph, name, variant) for name in graph.inputs]
    outputs = [_spec(graph, name, variant) for name in graph.outputs]
    aliases = {
        name: Alias(group, begin * element_bits(graph.types[name], variant) // 8)
        for name, (group, begin) in aliases_of(graph).items()
    }
    constants: dict[str, bytes] = {}
    # A launch for one token: there is another for the next, and its layers are small.
    repeats = has_states(graph)

    def build() -> LinkedCode:
        segments = _segments(graph, nodes, code, dump, say)
        say("linking")
        constants.update(_constants(graph, variant))
        sizes = {name: len(data) for name, data in constants.items()}
        return link_code(
            segments,
            variant,
            constants=sizes,
            inputs=inputs,
            outputs=outputs,
            aliases=aliases,
            renaming=builder.renaming,
            repeats=repeats,
            memory=builder.memory,
        )

    # The type of a constant, which is part of its layer's key, says how many bytes it takes.
    key = repr(
        (
            builder.renaming,
            [
                (code.key(graph, node), node.inputs, node.output, is_move(graph, node))
                for node in nodes
            ],
            [(name, graph.types[name]) for name in _constant_names(graph)],
            inputs,
            outputs,
            aliases,
        )
    )
    linked = code.linked(key, build)
    layers = [node.output for node in nodes]
    return linked.program(variant, constants or _constants(graph, variant), inputs, outputs, layers)


def _segments(
    graph: Graph,
    nodes: Sequence[Node],
    code: LayerCode,
    dump: Dump,
    say: Callable[[str], None],
) -> list[Segment]:
    """The code of every layer. Raises UnfitLayers."""
    segments: list[Segment] = []
    failed: dict[str, UserError] = {}
    for number, node in enumerate(nodes):
        say(f"compiling layers: {number + 1} of {len(nodes)}, {node.op} {node.output!r}")
        try:
            functions, segment = code.of(graph, node, segments)
        except ScheduleError as error:
            failed[node.output] = error
            continue
        segments.append(replace(segment, is_move=is_move(graph, node)))
        for item in functions:
            dump(f"{node.output}.tir", item.schedule)
        dump(f"{node.output}.segment", segment)
    if failed:
        raise UnfitLayers(graph, failed)
    return segments


def is_move(graph: Graph, node: Node) -> bool:
    """Whether a layer stores elements of its operand, and padding, as they are."""
    if is_wide(graph.types[node.output]):
        return False
    if node.op == Q_APPEND.name:
        return bool(np.all(graph.constant(node.inputs[2]).reshape(-1, 3) == IDENTITY))
    return node.op in ("q_pad", "q_permute", "q_slice") and copies_elements(graph, node)


def _placed(graph: Graph, name: str, linked: LinkedProgram, variant: Variant) -> TensorSpec:
    """A tensor with the address that the linker gave it."""
    place = linked.places[name]
    return replace(_spec(graph, name, variant), base=place.base, offset_bytes=place.offset_bytes)


def _constant_names(graph: Graph) -> list[str]:
    """Parameters, constant maps and weights, in the order in which nodes read them."""
    names = (name for node in graph.nodes for name in node.inputs if graph.is_constant(name))
    return list(dict.fromkeys(names))


def _constants(graph: Graph, variant: Variant) -> dict[str, bytes]:
    """Their bytes."""
    narrow = {node.inputs[1] for node in graph.nodes if narrow_weights(graph, node, variant)}
    return {
        name: _constant_bytes(graph.types[name], graph.constant(name), variant, name in narrow)
        for name in _constant_names(graph)
    }


def _constant_bytes(kind: TensorType, array: Array, variant: Variant, narrow: bool) -> bytes:
    if kind.dtype == PARAMETER_DTYPE:
        return parameter_bytes(variant, array)
    if isinstance(kind.layout, TableLayout):
        return table_bytes(array)
    if isinstance(kind.layout, ActivationLayout):
        return map_bytes(array, element_bits(kind, variant))
    return weight_bytes(variant, array, narrow=narrow)


def _spec(graph: Graph, name: str, variant: Variant) -> TensorSpec:
    """The tensor as the driver sees it; the linker sets its address."""
    kind = graph.types[name]
    n, c, h, w = kind.shape
    bits = element_bits(kind, variant)
    if isinstance(kind.layout, RowStreamLayout):
        stream = kind.layout.stream
        return TensorSpec(name, 0, 0, (n, c, h, w), bits, stream.batch, stream.lanes, stream)
    assert isinstance(kind.layout, ActivationLayout), f"{name!r} is {kind}"
    by_pixel = isinstance(kind.layout, PixelLayout)
    return TensorSpec(
        name,
        0,
        0,
        (n, c, h, w),
        bits,
        kind.layout.batch,
        kind.layout.block,
        by_pixel=by_pixel,
        pitch=row_pitch(graph, name),
    )
