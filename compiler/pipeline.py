"""The compiler on one page: an imported graph becomes programs for the accelerator.

Graph -> passes -> blocked graph -> parts for host and accelerator, which form a graph. For each
part on the accelerator: (per layer) te -> loop IR -> schedule -> segment -> link -> program. Most
networks have one such part.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from daedal.common.errors import ModelError, UnsupportedError
from daedal.common.reporting import log
from daedal.compiler.collection import without_collection
from daedal.compiler.cost.memory import DDR
from daedal.compiler.dump import Dump
from daedal.compiler.graph.extract import extract
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.passes import (
    align_channels,
    align_heads,
    align_matmul,
    append_to_maps,
    appends_first,
    compose_tables,
    compute_used_parts,
    cut_padding_taps,
    diagonal_to_groups,
    eliminate_common_subexpressions,
    eliminate_dead_code,
    exact_sums,
    feed_dense_maps,
    feed_matmul_maps,
    flatten_dense_to_conv,
    fold_batch_norm,
    fold_bias,
    fold_constants,
    fold_factors,
    fold_padding,
    fold_selections,
    fuse_lookups,
    fuse_operators,
    hoist_lookups,
    join_columns,
    join_images,
    lower_qdq,
    move_transposes,
    pads_first,
    partition,
    rescale_before_concat,
    rewrite_first_layer,
    shuffles_to_selections,
    simplify_reshapes,
    simplify_transposes,
    split_joined_rows,
    split_projections,
    split_wide_weights,
    to_blocked,
    transposes_to_products,
    turn_projections,
    ungroup_queries,
    views_to_permutes,
)
from daedal.compiler.graph.passes.attention.align_matmul import check_fillers
from daedal.compiler.graph.passes.partition import Part
from daedal.compiler.graph.same_elements import SameElements
from daedal.compiler.graph.unfit import UnfitLayers
from daedal.compiler.layers.launch import CompiledLaunch
from daedal.compiler.layers.layer_code import LayerCode
from daedal.compiler.layers.program_builder import ProgramBuilder
from daedal.compiler.layers.segment_store import SegmentStore
from daedal.compiler.ops.space import Config
from daedal.compiler.targets.borders import check_borders
from daedal.compiler.targets.capabilities import Capabilities
from daedal.compiler.targets.crossings import (
    DEFAULT_HOST,
    HostRates,
    costly_islands,
    narrow_entries,
)
from daedal.compiler.targets.fallback import Fallback
from daedal.compiler.targets.gpu import Gpu
from daedal.compiler.targets.gpu_islands import gpu_islands
from daedal.compiler.targets.names import ACCELERATOR
from daedal.compiler.targets.target import get_target
from daedal.compiler.targets.tools import Tools
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant

__all__ = [
    "CompiledGraph",
    "CompiledPart",
    "accelerator_graphs",
    "compile_graph",
    "graph_passes",
    "layout_passes",
    "lowering_passes",
]

GraphPass = tuple[str, Callable[[Graph], Graph]]


@dataclass(frozen=True)
class CompiledPart:
    """A part, and what its target made of it (`Target.compile`)."""

    part: Part
    code: CompiledLaunch | bytes | None = None

    @property
    def launch(self) -> CompiledLaunch | None:
        """Of a part for the accelerator."""
        return self.code if isinstance(self.code, CompiledLaunch) else None


@dataclass(frozen=True)
class CompiledGraph:
    """What `compile_graph` returns.

    Attributes
    ----------
    imported : the graph before all passes.
    lowered : the graph after `lowering_passes`.
    graph : the graph after all passes.
    parts : the parts in the order in which they run: each after all that it needs.
    not_on_gpu : why the processor runs nodes that a GPU does not, by their tensors.
    reasons : why the host computes some quantized tensors, by their names.
    same : which tensors have the same elements, over all graphs from `imported` to `graph`.
    """

    imported: Graph
    lowered: Graph
    graph: Graph
    parts: tuple[CompiledPart, ...]
    reasons: Mapping[str, str]
    same: SameElements
    not_on_gpu: Mapping[str, str] = field(default_factory=dict)

    @property
    def launches(self) -> tuple[CompiledLaunch, ...]:
        """The parts for the accelerator, in order."""
        return tuple(item.launch for item in self.parts if item.launch is not None)

    @property
    def launch(self) -> CompiledLaunch:
        """The only part for the accelerator."""
        (only,) = self.launches
        return only

    @property
    def host_parts(self) -> tuple[Graph, ...]:
        """The graphs of the parts of the host and of a GPU, in order."""
        return tuple(item.part.graph for item in self.parts if item.code is None)


def graph_passes(
    variant: Variant,
    from_tensors: Sequence[str],
    to_tensors: Sequence[str],
    *,
    on_host: Collection[str] = (),
    fuse: bool = True,
    memory: MemoryModel = DDR,
) -> list[GraphPass]:
    """All passes in order: `lowering_passes`, then `layout_passes`."""
    return [
        *lowering_passes(variant, on_host=on_host),
        *layout_passes(variant, from_tensors, to_tensors, fuse=fuse, memory=memory),
    ]


def lowering_passes(variant: Variant, *, on_host: Collection[str] = ()) -> list[GraphPass]:
    """The first passes, in order, each with its name in dumps: to integer operators on the model's
    own tensors. Their result is what layers are compared with
    (`daedal.checking.integer_reference`).

    `on_host` are the quantized tensors that the host has to compute.
    """
    able = Capabilities.of(variant)
    return [
        ("fold_constants", fold_constants),
        ("simplify_reshapes", simplify_reshapes),
        ("eliminate_dead_code", eliminate_dead_code),
        ("cut_padding_taps", cut_padding_taps),
        ("fold_bias", fold_bias),
        ("fold_batch_norm", fold_batch_norm),
        ("lower_qdq", lambda graph: lower_qdq(
            graph,
            multiplier_bits=variant.units.multiplier_bits,
            accumulator_bits=variant.array.accumulator_bits,
            on_host=on_host,
            tables=able.tables,
            wide=able.wide,
            rows=able.rows,
        )),
        ("hoist_lookups", hoist_lookups),
        ("flatten_dense_to_conv", flatten_dense_to_conv),
    ]  # fmt: skip


def layout_passes(
    variant: Variant,
    from_tensors: Sequence[str],
    to_tensors: Sequence[str],
    *,
    fuse: bool = True,
    memory: MemoryModel = DDR,
) -> list[GraphPass]:
    """The other passes, in order: which parts of tensors are computed, and where elements lie.

    Without `fuse`, every operator is a layer of its own, which shows what fusion gains. `memory` is
    that behind the machine.
    """
    array = variant.array
    # With a batch, the host arranges the operands of matrix products, and fills up their blocks.
    products: list[GraphPass] = [
        ("turn_projections", lambda graph: turn_projections(graph, block=variant.block)),
        ("transposes_to_products", transposes_to_products),
    ]
    aligned: list[GraphPass] = [
        ("align_heads", lambda graph: align_heads(graph, block=variant.block)),
        ("views_to_permutes", lambda graph: views_to_permutes(graph, block=variant.block)),
        ("align_matmul", lambda graph: align_matmul(graph, block=variant.block)),
        ("join_images", lambda graph: join_images(graph, block=variant.block)),
    ]
    return [
        ("extract", lambda graph: extract(graph, from_tensors, to_tensors)),
        ("compute_used_parts", compute_used_parts),
        ("simplify_transposes", simplify_transposes),
        ("join_columns", join_columns),
        ("simplify_reshapes", simplify_reshapes),
        ("eliminate_dead_code", eliminate_dead_code),
        ("move_transposes", move_transposes),
        ("ungroup_queries", ungroup_queries),
        ("feed_dense_maps", feed_dense_maps),
        ("feed_matmul_maps", feed_matmul_maps),
        ("simplify_reshapes", simplify_reshapes),
        ("append_to_maps", lambda graph: append_to_maps(graph, block=variant.block)),
        ("simplify_reshapes", simplify_reshapes),
        ("fold_constants", lambda graph: fold_constants(graph, keep_quantized=False)),
        ("eliminate_dead_code", eliminate_dead_code),
        ("split_wide_weights", lambda graph: split_wide_weights(graph, block=variant.block)),
        ("split_projections", split_projections),
        *(products if array.batch == 1 else []),
        ("shuffles_to_selections", shuffles_to_selections),
        *(aligned if array.batch == 1 else []),
        ("split_joined_rows", lambda graph: split_joined_rows(graph, block=variant.block)),
        ("align_channels", lambda graph: align_channels(graph, block=variant.block)),
        ("fold_selections", lambda graph: fold_selections(
            graph, block_in=array.block_in, block_out=array.block_out
        )),
        ("diagonal_to_groups", lambda graph: diagonal_to_groups(graph, block=variant.block)),
        ("to_blocked", lambda graph: to_blocked(
            graph,
            block_in=array.block_in,
            block_out=array.block_out,
            batch=array.batch,
            depthwise_taps=array.depthwise_taps,
        )),
        ("rewrite_first_layer", lambda graph: rewrite_first_layer(graph, variant, memory)),
        ("rescale_before_concat", rescale_before_concat),
        ("fold_padding", lambda graph: fold_padding(graph, variant)),
        ("eliminate_common_subexpressions", eliminate_common_subexpressions),
        ("compose_tables", compose_tables),
        ("fold_factors", fold_factors),
        ("exact_sums", exact_sums),
        *([("fuse_lookups", fuse_lookups), ("fuse_operators", fuse_operators)] if fuse else []),
        ("pads_first", pads_first),
        ("appends_first", appends_first),
    ]  # fmt: skip


@without_collection
def compile_graph(
    graph: Graph,
    variant: Variant,
    *,
    from_tensors: Sequence[str] = (),
    to_tensors: Sequence[str] = (),
    fuse: bool = True,
    host: HostRates | None = DEFAULT_HOST,
    gpu: Gpu | None = None,
    configs: Mapping[str, Config] | None = None,
    names: Collection[str] | None = None,
    memory: MemoryModel = DDR,
    store: SegmentStore | None = None,
    dump_dir: Path | None = None,
    report: Callable[[str], None] | None = None,
) -> CompiledGraph:
    """Compile `graph` (as imported) for `variant`.

    A layer that the accelerator cannot run falls back to the host, and the rest is compiled again.
    So does a layer that would exchange a tensor with the host that the model does not have.

    Parameters
    ----------
    from_tensors, to_tensors : compile only the part between these quantized tensors.
    fuse : whether operators are fused into layers; without it, every one is a layer of its own.
    host : rates that decide which small parts run on the host because the transfer costs more than
        it saves. None: everything that can run on the accelerator does. The same holds if
        `from_tensors` or `to_tensors` are given.
    gpu : runs those of the host's nodes that are worth the transfer, by these rates and its own.
    configs : configurations of layers by the keys of their workloads (`workload_of`); layers
        without one have the default.
    names : names of the model's tensors; None: those of all tensors of `graph`.
    memory : behind the machine: what tiles are chosen for.
    store : keeps the code of layers for the next compilation; unused where forms are dumped.
    dump_dir : folder for the graph after every pass, and the loop IR and segment of every layer.
    report : called with a sentence before each long step.

    Raises
    ------
    ModelError
        The model has no part for the accelerator.
    ScheduleError
        None of its layers fits the variant.
    """
    say = report or log
    fallback, builder = (
        Fallback(graph),
        ProgramBuilder(variant, configs=configs or {}, memory=memory),
    )
    # What is dumped has the layer's own immediates.
    dumps = dump_dir is not None
    code = LayerCode(builder, None if dumps else store, for_reuse=not dumps)
    cut = bool(from_tensors or to_tensors)
    dump = Dump(dump_dir)
    while True:
        lowering = lowering_passes(variant, on_host=fallback.reasons)
        layout = layout_passes(variant, from_tensors, to_tensors, fuse=fuse, memory=memory)
        dump.restart()
        dump("imported", graph)
        final, same = None, SameElements([graph])
        try:
            lowered = _run_passes(graph, lowering, dump, say, same)
            final = _run_passes(lowered, layout, dump, say, same)
            known = graph.types if names is None else names
            check_borders(final, same, known)
            parts = _partition(final, fallback)
            ours = [part.graph for part in parts if part.target == ACCELERATOR]
            check_fillers(final, ours, variant.block)
            costly = {} if cut else _costly(parts, variant, host, fallback, same)
            if costly:
                fallback.reasons.update(costly)
                continue
        except UnfitLayers as unfit:
            fallback.add([unfit], final, same)
            continue
        islands = None
        if gpu is not None:
            islands = gpu_islands(
                parts,
                gpu,
                host or DEFAULT_HOST,
                partial(_has_counterpart, same=same, names=known),
            )
            parts = partition(final, islands.moved)
        compiled, unfits = _compile_parts(parts, Tools(builder, code, dump, say), gpu)
        if unfits:
            fallback.add(unfits, final, same)
            continue
        for item in compiled:
            if item.launch is not None:
                same.add(item.launch.graph)
        return CompiledGraph(
            graph,
            lowered,
            final,
            tuple(compiled),
            fallback.reasons,
            same,
            {} if islands is None else islands.reasons,
        )


def _compile_parts(
    parts: Sequence[Part], tools: Tools, gpu: Gpu | None
) -> tuple[list[CompiledPart], list[UnfitLayers]]:
    """The parts, and the layers of all of them that do not fit."""
    compiled, unfit = list[CompiledPart](), list[UnfitLayers]()
    for part in parts:
        try:
            target = gpu if gpu and part.target == gpu.name else get_target(part.target)
            compiled.append(CompiledPart(part, target.compile(part, tools)))
        except UnfitLayers as error:
            unfit.append(error)
    return compiled, unfit


@without_collection
def accelerator_graphs(
    graph: Graph, variant: Variant, *, on_host: Collection[str] = (), memory: MemoryModel = DDR
) -> tuple[Graph, ...]:
    """The parts of `graph` (as imported) for the accelerator after all passes, without any code.

    `on_host` are the quantized tensors that the host has to compute: of an earlier compilation,
    `CompiledGraph.reasons`. `memory` is that behind the machine.

    Raises
    ------
    ModelError
        There is no such part.
    UnsupportedError
        A layer does not fit the variant's array.
    """
    for _, run_pass in graph_passes(variant, (), (), on_host=on_host, memory=memory):
        graph = run_pass(graph)
    return tuple(part.graph for part in partition(graph) if part.target == ACCELERATOR)


def _run_passes(
    graph: Graph,
    passes: Sequence[GraphPass],
    dump: Dump,
    say: Callable[[str], None],
    same: SameElements,
) -> Graph:
    """The graph after these passes; the views of every intermediate graph are added to `same`."""
    for name, run_pass in passes:
        say(f"graph passes: {name}")
        try:
            graph = run_pass(graph)
        except UnfitLayers:
            raise
        except UnsupportedError as error:
            raise UnfitLayers(graph, {error.tensor: error}) from error
        same.add(graph)
        dump(name, graph)
    return graph


def _has_counterpart(name: str, same: SameElements, names: Collection[str]) -> bool:
    """Whether the model has a tensor with the elements of `name`."""
    return any(item in names for item in same.names(name))


def _partition(graph: Graph, fallback: Fallback) -> tuple[Part, ...]:
    try:
        return partition(graph)
    except ModelError as error:
        raise (fallback.first or error) from None


def _costly(
    parts: Sequence[Part],
    variant: Variant,
    host: HostRates | None,
    fallback: Fallback,
    same: SameElements,
) -> Mapping[str, str]:
    """Quantized tensors moved to the host because the transfer costs more than it saves, and why.

    Those that the host computes already are left out.
    """
    if host is None:
        return {}
    graphs = [part.graph for part in parts if part.target == ACCELERATOR]
    quantized = fallback.quantized - fallback.reasons.keys()
    found = narrow_entries(graphs, variant, host, quantized, same)
    return found or costly_islands(graphs, variant, host, quantized, same)
