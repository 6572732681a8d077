"""`host_artifact` and `gpu_artifact`: an artifact of one part, for processors or GPUs alone.

`whole_part` is the ONNX model of that part.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import onnx

from daedal.artifact.artifact import Artifact, HostNode, HostPart, Value
from daedal.common.errors import UnsupportedError
from daedal.compiler.artifact.gpu_code import compile_gpu_model
from daedal.compiler.artifact.host_code import best_levels, compile_host_model
from daedal.compiler.artifact.placements import place_nodes
from daedal.compiler.cpu.support import check_runs
from daedal.compiler.frontend.cut import ModelCutter, is_static
from daedal.compiler.frontend.host_model import modern_model
from daedal.compiler.frontend.tensor_types import tensor_types
from daedal.compiler.ops.space import Config
from daedal.native.cache import ObjectCache

__all__ = ["gpu_artifact", "host_artifact", "whole_part"]

_ON_HOST = "the model is compiled for processors alone"
_ON_GPU = "the model is compiled for GPUs"
_NOT_ON_GPU = "GPUs have no code for any kernel of the model"


def host_artifact(
    model: onnx.ModelProto,
    cpu_levels: Sequence[str],
    report: Callable[[str], None] | None = None,
    objects: ObjectCache | None = None,
    configs: Mapping[str, Config] = MappingProxyType({}),
) -> Artifact:
    """The artifact of a whole checked model, compiled for `cpu_levels` with `configs`.

    Object code is kept in `objects`, by default in the user's cache.

    Raises ModelError for a model whose inputs have no static shapes, apart from a batch, which is
    1, and for one with an operator that nothing runs.
    """

    def compiled(serialized: bytes) -> HostPart:
        codes = compile_host_model(serialized, cpu_levels, report, objects, configs=configs)
        return HostPart(serialized, codes=codes)

    return _artifact(model, compiled, "host", _ON_HOST)


def gpu_artifact(
    model: onnx.ModelProto,
    architectures: Sequence[str],
    cpu_levels: Sequence[str] = (),
    report: Callable[[str], None] | None = None,
    objects: ObjectCache | None = None,
    configs: Mapping[str, Config] = MappingProxyType({}),
    precision: str = "float32",
) -> Artifact:
    """The artifact of a whole checked model, compiled for GPUs of `architectures` with
    `configs` and `precision`, and for `cpu_levels` of processors, too: for these alone where GPUs
    have no code for any of its kernels.

    Raises as `host_artifact`.
    """

    def compiled(serialized: bytes) -> HostPart:
        codes = compile_host_model(serialized, cpu_levels, report, objects)
        gpu = compile_gpu_model(
            serialized,
            architectures,
            objects,
            configs,
            cpu_levels,
            cubins=bool(architectures),
            precision=precision,
            report=report,
        )
        return HostPart(serialized, codes=codes, gpu=gpu)

    def on_processor(serialized: bytes) -> HostPart:
        levels = cpu_levels or best_levels()
        return HostPart(serialized, codes=compile_host_model(serialized, levels, report, objects))

    try:
        return _artifact(model, compiled, "gpu", _ON_GPU)
    except UnsupportedError as error:
        if report is not None:
            report(f"the model stays with the processor: {error}")
        return _artifact(model, on_processor, "host", f"{_NOT_ON_GPU}: {error}")


def _artifact(
    model: onnx.ModelProto, compiled: Callable[[bytes], HostPart], where: str, why: str
) -> Artifact:
    """The artifact of what `compiled` makes of the whole model, and runs at `where`."""
    cutter = ModelCutter(model, tensor_types(model))
    numbers = sorted(cutter.needed(cutter.inputs, cutter.outputs))
    run = [n for n in numbers if not cutter.constants.issuperset(cutter.nodes[n].output)]
    nodes = tuple(_host_node(cutter.nodes[number]) for number in run)
    part = compiled(_serialized(cutter, numbers))
    part = replace(part, nodes=nodes)
    placements = place_nodes(cutter, (part,), {}, dict.fromkeys(run, 0), lambda _node: why)
    return Artifact(
        parts=(part,),
        inputs=tuple(_value(cutter, name) for name in cutter.inputs),
        outputs=tuple(_value(cutter, name) for name in cutter.outputs),
        placements=tuple(
            replace(item, where=where) if item.where == "host" else item for item in placements
        ),
    )


def whole_part(model: onnx.ModelProto) -> bytes:
    """The ONNX model of the only part of such an artifact. Raises as `host_artifact`."""
    cutter = ModelCutter(model, tensor_types(model))
    return _serialized(cutter, sorted(cutter.needed(cutter.inputs, cutter.outputs)))


def _serialized(cutter: ModelCutter, numbers: Sequence[int]) -> bytes:
    """The model of some of the nodes."""
    check_runs(cutter.nodes[number] for number in numbers)
    part = modern_model(cutter.part(numbers, cutter.inputs, cutter.outputs))
    return bytes(part.SerializeToString(deterministic=True))


def _host_node(node: onnx.NodeProto) -> HostNode:
    return HostNode(node.op_type, node.name or next((name for name in node.output if name), ""))


def _value(cutter: ModelCutter, name: str) -> Value:
    """A tensor with its shape, empty where it is not static."""
    value = cutter.types.get(name)
    if value is None or not is_static(value.type.tensor_type):
        return Value(name, ())
    return Value(name, tuple(int(dim.dim_value) for dim in value.type.tensor_type.shape.dim))
