"""The compiler on one page: an imported graph becomes one program for the accelerator.

Graph -> passes -> blocked graph -> (per layer) te -> loop IR -> schedule -> segment -> link ->
program.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from daedal.compiler.codegen.printer import segment_text
from daedal.compiler.codegen.segment import Segment
from daedal.compiler.graph.extract import extract
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.layout import ActivationLayout
from daedal.compiler.graph.ops.integer import PARAMETER_DTYPE
from daedal.compiler.graph.passes import (
    align_channels,
    align_matmul,
    eliminate_common_subexpressions,
    eliminate_dead_code,
    feed_matmul_maps,
    flatten_dense_to_conv,
    fold_bias,
    fold_constants,
    fuse_operators,
    lower_qdq,
    partition,
    rewrite_first_layer,
    simplify_reshapes,
    simplify_transposes,
    to_blocked,
    transposes_to_products,
)
from daedal.compiler.graph.stream_layout import RowStreamLayout
from daedal.compiler.graph.types import TensorType
from daedal.compiler.layer_code import LayerCode
from daedal.compiler.link import LinkedProgram, LinkReport, link
from daedal.compiler.link.constants import map_bytes, parameter_bytes, weight_bytes
from daedal.compiler.ops.accelerator.lowering import multiplications
from daedal.compiler.ops.accelerator.traffic import bytes_once
from daedal.isa.artifact import Layer
from daedal.isa.errors import ModelError
from daedal.isa.program import Program
from daedal.isa.tensor import TensorSpec
from daedal.isa.variant import Variant

__all__ = ["CompiledGraph", "compile_graph"]

GraphPass = tuple[str, Callable[[Graph], Graph]]


@dataclass(frozen=True)
class CompiledGraph:
    """What `compile_graph` returns: the program, and the graphs that the host runs around it."""

    program: Program
    prologue: Graph
    accelerator: Graph
    epilogue: Graph
    layers: tuple[Layer, ...]
    report: LinkReport


def graph_passes(
    variant: Variant, from_tensors: Sequence[str], to_tensors: Sequence[str], fuse: bool = True
) -> list[GraphPass]:
    """The passes in order, each with the name that dumps bear.

    Without `fuse`, every operator is a layer of its own: to see what fusion is worth.
    """
    array = variant.array
    return [
        ("fold_constants", fold_constants),
        ("fold_bias", fold_bias),
        ("lower_qdq", lambda graph: lower_qdq(
            graph,
            multiplier_bits=variant.units.multiplier_bits,
            accumulator_bits=array.accumulator_bits,
        )),
        ("flatten_dense_to_conv", flatten_dense_to_conv),
        ("simplify_transposes", simplify_transposes),
        ("feed_matmul_maps", feed_matmul_maps),
        ("simplify_reshapes", simplify_reshapes),
        ("fold_constants", lambda graph: fold_constants(graph, keep_quantized=False)),
        ("eliminate_dead_code", eliminate_dead_code),
        ("extract", lambda graph: extract(graph, from_tensors, to_tensors)),
        ("transposes_to_products", transposes_to_products),
        ("align_matmul", lambda graph: align_matmul(graph, block=variant.block)),
        ("align_channels", lambda graph: align_channels(graph, block=variant.block)),
        ("to_blocked", lambda graph: to_blocked(
            graph,
            block_in=array.block_in,
            block_out=array.block_out,
            batch=array.batch,
            depthwise_taps=array.depthwise_taps,
        )),
        ("rewrite_first_layer", lambda graph: rewrite_first_layer(graph, variant)),
        ("eliminate_common_subexpressions", eliminate_common_subexpressions),
        *([("fuse_operators", fuse_operators)] if fuse else []),
    ]  # fmt: skip


def compile_graph(
    graph: Graph,
    variant: Variant,
    *,
    from_tensors: Sequence[str] = (),
    to_tensors: Sequence[str] = (),
    fuse: bool = True,
    dump_dir: Path | None = None,
    report: Callable[[str], None] | None = None,
) -> CompiledGraph:
    """Compile `graph` (as imported) for `variant`.

    Parameters
    ----------
    from_tensors, to_tensors : compile only the part between these quantized tensors.
    fuse : whether operators are joined into layers; without it, every one is a layer of its own.
    dump_dir : folder for the graph after every pass, and the loop IR and segment of every layer.
    report : called with a sentence before each long step.

    Raises
    ------
    ModelError
        The model has no part for the accelerator, or one that host operators interrupt.
    ScheduleError
        A layer does not fit the variant.
    """
    say = report or (lambda _sentence: None)
    dump = _Dump(dump_dir)
    dump("imported", graph)
    for name, run_pass in graph_passes(variant, from_tensors, to_tensors, fuse):
        say(f"graph pass {name}")
        graph = run_pass(graph)
        dump(name, graph)
    parts = partition(graph)
    accelerator = parts.accelerator
    code = LayerCode(accelerator, variant)
    segments = []
    for number, node in enumerate(accelerator.nodes):
        say(f"layer {number + 1} of {len(accelerator.nodes)}: {node.op} {node.output!r}")
        lowered, segment = code.of(node)
        segments.append(segment)
        for item in lowered:
            dump(f"{node.output}.tir", item.schedule)
        dump(f"{node.output}.segment", segment)
    say("linking")
    linked = _link(accelerator, segments, variant)
    layers = [
        Layer(
            tag=tag,
            name=node.name or node.output,
            op=node.op,
            macs=multiplications(accelerator, node),
            output=node.output,
            bytes_once=bytes_once(accelerator, node, variant),
        )
        for tag, node in enumerate(accelerator.nodes)
    ]
    return CompiledGraph(
        linked.program,
        parts.prologue,
        accelerator,
        parts.epilogue,
        tuple(layers),
        linked.report,
    )


def _link(graph: Graph, segments: Sequence[Segment], variant: Variant) -> LinkedProgram:
    for name in graph.outputs:
        if name in graph.inputs:
            raise ModelError(f"a compiled part must compute its outputs; {name!r} is also an input")
    return link(
        segments,
        variant,
        constants={
            name: data for node in graph.nodes for name, data in _constants(graph, node, variant)
        },
        inputs=[_spec(graph, name, variant) for name in graph.inputs],
        outputs=[_spec(graph, name, variant) for name in graph.outputs],
    )


def _constants(graph: Graph, node: Node, variant: Variant) -> list[tuple[str, bytes]]:
    """Bytes of a node's parameters, constant maps and weights."""
    return [
        (name, _constant_bytes(graph.types[name], graph.constant(name), variant))
        for name in node.inputs
        if graph.is_constant(name)
    ]


def _constant_bytes(kind: TensorType, array: Array, variant: Variant) -> bytes:
    if kind.dtype == PARAMETER_DTYPE:
        return parameter_bytes(variant, array)
    if isinstance(kind.layout, ActivationLayout):
        return map_bytes(variant, array)
    return weight_bytes(variant, array)


def _spec(graph: Graph, name: str, variant: Variant) -> TensorSpec:
    """The tensor as the driver sees it; its place is the linker's to choose."""
    kind = graph.types[name]
    n, c, h, w = kind.shape
    bits = variant.array.input_bits
    if isinstance(kind.layout, RowStreamLayout):
        stream = kind.layout.stream
        return TensorSpec(name, 0, 0, (n, c, h, w), bits, stream.batch, stream.lanes, stream)
    assert isinstance(kind.layout, ActivationLayout), f"{name!r} is {kind}"
    return TensorSpec(name, 0, 0, (n, c, h, w), bits, kind.layout.batch, kind.layout.block)


class _Dump:
    """Writes what each step made, numbered in order, where a folder was given."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._count = 0
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, step: str, what: object) -> None:
        if self._folder is None:
            return
        safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in step)
        path = self._folder / f"{self._count:03}_{safe}.txt"
        text = segment_text(what) if isinstance(what, Segment) else f"{what}\n"
        path.write_text(text, encoding="utf-8")
        self._count += 1
