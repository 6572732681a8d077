"""`compile_model`, `compile_for_cpu` and `compile_for_gpu`: an ONNX file in, an artifact out.

`pipeline.compile_graph` compiles the programs; `artifact.build` adds the host's parts. For
processors or GPUs alone, the whole model is one part of the host.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from daedal.artifact.artifact import Artifact
from daedal.artifact.gpu_code import GpuCode
from daedal.artifact.host_code import HostCode
from daedal.common.errors import ModelError, UserError, VariantError
from daedal.common.reporting import log
from daedal.compiler.artifact.build import build_artifact
from daedal.compiler.artifact.gpu_code import compile_gpu_model
from daedal.compiler.artifact.host_code import best_levels, compile_host_model
from daedal.compiler.artifact.whole_host import gpu_artifact, host_artifact
from daedal.compiler.collection import without_collection
from daedal.compiler.cost.memory import DDR
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.frontend.node import element_type_name
from daedal.compiler.frontend.reader import Source, opset_of, read_model, source_of
from daedal.compiler.frontend.shapes import bind_shapes
from daedal.compiler.frontend.tensor_types import tensor_names, tensor_types
from daedal.compiler.gpu.architectures import best_architecture, gpu_architectures
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.states import BoundState, bind_states, match_states
from daedal.compiler.layers.config_check import check_configs
from daedal.compiler.layers.segment_store import SegmentStore
from daedal.compiler.ops.space import Config
from daedal.compiler.pipeline import compile_graph
from daedal.compiler.targets.crossings import DEFAULT_HOST, HostRates
from daedal.compiler.targets.gpu import Gpu, gpu_rates
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant
from daedal.native.cache import ObjectCache

__all__ = [
    "check_widths",
    "compile_for_cpu",
    "compile_for_gpu",
    "compile_gpu_part",
    "compile_model",
    "compile_part",
]


@without_collection
def compile_model(
    model: Source,
    variant: Variant,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    from_tensors: Sequence[str] = (),
    to_tensors: Sequence[str] = (),
    fuse: bool = True,
    host: HostRates | None = DEFAULT_HOST,
    configs: Mapping[str, Config] | None = None,
    other_configs: bool = False,
    states: Mapping[str, str] | None = None,
    memory: MemoryModel = DDR,
    store: SegmentStore | None = None,
    cpu_levels: Sequence[str] = (),
    gpus: Sequence[str] | None = None,
    objects: ObjectCache | None = None,
    dump_dir: Path | None = None,
    report: Callable[[str], None] | None = None,
) -> Artifact:
    """Compile an int8 QDQ model, or the part of it between quantized tensors.

    `shapes` are those of inputs that the model leaves open. Tiles are chosen for `memory`. `store`
    keeps the code of layers for the next compilation. The host's parts are compiled for
    `cpu_levels` of processors; without any they are interpreted. With `gpus`, a GPU runs those that
    it is faster for, and is compiled for these architectures, or by default for the usual ones.
    Their code is kept in `objects`, by default in the user's cache.

    Raises VariantError if the machine's widths differ from those of the model's tensors, ModelError
    and ScheduleError as `daedal.compile` says.
    """
    check_widths(variant)
    say = report or log
    say("reading the model")
    checked = read_model(source_of(model))
    checked = bind_shapes(checked, shapes or {})
    graph = load_onnx(checked)
    _check_quantized(checked, graph)
    bound: tuple[BoundState, ...] = ()
    if states:
        if from_tensors or to_tensors:
            raise UserError("a model with states must be compiled whole; leave out --from and --to")
        graph, bound = bind_states(graph, match_states(states, graph.inputs, graph.outputs))
    gpu = None if gpus is None else Gpu(gpu_rates(gpu_architectures(gpus)))
    compiled = compile_graph(
        graph,
        variant,
        from_tensors=from_tensors,
        to_tensors=to_tensors,
        fuse=fuse,
        host=host,
        gpu=gpu,
        configs=configs,
        names=tensor_names(checked),
        memory=memory,
        store=store,
        dump_dir=dump_dir,
        report=report,
    )
    if not other_configs:
        check_configs(compiled, configs or {})
    if cpu_levels:
        say("compiling the host's parts")
    built = build_artifact(
        checked, compiled, from_tensors, to_tensors, cpu_levels, report, objects, bound, gpus
    )
    return replace(built, memory=replace(memory, seed=0))


@without_collection
def compile_for_cpu(
    model: Source,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    cpu_levels: Sequence[str],
    objects: ObjectCache | None = None,
    configs: Mapping[str, Config] | None = None,
    report: Callable[[str], None] | None = None,
) -> Artifact:
    """Compile any model, float or quantized, for processors alone; `shapes` are those of inputs
    that it leaves open, `configs` schedules of kernels by the keys of their workloads, for the best
    of `cpu_levels`. Raises ModelError, and TuningError for a configuration of another kernel."""
    checked = _whole(model, shapes, report)
    _say(report, "compiling for processors")
    return host_artifact(checked, cpu_levels, report, objects, configs or {})


@without_collection
def compile_for_gpu(
    model: Source,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    architectures: Sequence[str] = (),
    cpu_levels: Sequence[str] = (),
    objects: ObjectCache | None = None,
    configs: Mapping[str, Config] | None = None,
    precision: str = "float32",
    report: Callable[[str], None] | None = None,
) -> Artifact:
    """Compile any model for GPUs of `architectures`, by default of the usual ones, with `configs`
    of kernels, and for `cpu_levels` of processors; `precision` is that of `build_gpu_code`. Raises
    as `compile_for_cpu`, and UnsupportedError."""
    chosen = gpu_architectures(architectures)
    checked = _whole(model, shapes, report)
    _say(report, f"compiling for GPUs: {', '.join(chosen)}")
    return gpu_artifact(
        checked, architectures, cpu_levels, report, objects, configs or {}, precision
    )


def _whole(
    model: Source,
    shapes: Mapping[str, Sequence[int]] | None,
    report: Callable[[str], None] | None,
) -> onnx.ModelProto:
    """A checked model for a target that takes whole ones."""
    _say(report, "reading the model")
    checked = read_model(source_of(model), loops=True)
    opset_of(checked)
    return bind_shapes(checked, shapes or {})


def _say(report: Callable[[str], None] | None, sentence: str) -> None:
    if report is not None:
        report(sentence)


def compile_part(serialized: bytes) -> tuple[HostCode, ...]:
    """Compile a host's part of an artifact again, for this processor; nothing where it must
    be interpreted. Raises ModelError for a model that is none."""
    return compile_host_model(read_model(serialized, loops=True).SerializeToString(), best_levels())


def compile_gpu_part(
    serialized: bytes, architectures: Sequence[str], precision: str
) -> GpuCode | None:
    """Compile a part again for a GPU that runs these architectures; None where none of them can be
    made here, or GPUs have no code for it. Raises ModelError for a model that is none."""
    model = read_model(serialized, loops=True).SerializeToString()
    best = best_architecture(architectures)
    try:
        return None if best is None else compile_gpu_model(model, (best,), precision=precision)
    except UserError:
        return None


def _check_quantized(model: onnx.ModelProto, graph: Graph) -> None:
    """Refuse a model all of whose quantized tensors have types that the accelerator lacks."""
    for node in graph.nodes:
        if node.op == "quantize":
            return
        if node.op == "dequantize" and not graph.is_constant(node.inputs[0]):
            return
    types = tensor_types(model)
    for made in model.graph.node:
        if made.op_type == "QuantizeLinear" and made.output[0] in types:
            kind = element_type_name(types[made.output[0]].type.tensor_type.elem_type)
            raise ModelError(
                f"models must be quantized to int8 (QDQ), and {made.output[0]!r} of {graph.name!r} "
                f"is {kind}, which the accelerator does not compute with; quantize it with `daedal "
                "quantize`, or compile it for processors with --target cpu"
            )


def check_widths(variant: Variant) -> None:
    """Refuse machines that would truncate a quantized model's values, or lack instructions for
    them: raise VariantError."""
    widths = (variant.array.input_bits, variant.array.weight_bits)
    if widths != (8, 8):
        raise VariantError(
            "a variant that a network is compiled for must have inputs and weights of 8 bits, as "
            f"quantized ONNX models have, not {widths[0]} and {widths[1]} (variant "
            f"{variant.name!r}); choose another one, such as 'vta'"
        )
