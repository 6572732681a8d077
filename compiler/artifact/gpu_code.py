"""`compile_gpu_model`: an ONNX model as kernels for GPUs, recorded as made here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import onnx

from daedal.artifact.gpu_code import GpuCode
from daedal.artifact.gpu_code_file import gpu_digest
from daedal.common.errors import UnsupportedError
from daedal.compiler.artifact.host_code import linked
from daedal.compiler.gpu.build import build_gpu_code
from daedal.compiler.ops.space import Config
from daedal.native.cache import ObjectCache
from daedal.native.own_code import OwnCode

__all__ = ["compile_gpu_model"]


def compile_gpu_model(
    serialized: bytes,
    architectures: Sequence[str],
    cache: ObjectCache | None = None,
    configs: Mapping[str, Config] = MappingProxyType({}),
    levels: Sequence[str] = (),
    *,
    cubins: bool = False,
    precision: str = "float32",
    report: Callable[[str], None] | None = None,
) -> GpuCode:
    """Compile a model, and record that this machine made the code (`OwnCode`).

    Images are kept in `cache`, by default the user's. `configs` are schedules of
    kernels, by the keys of their workloads. Processors of `levels`, by default the best of this
    one, run kernels that GPUs have no code for. `cubins`, `precision` and `report` are those of
    `build_gpu_code`, which raises.
    """
    model = onnx.ModelProto.FromString(serialized)
    code = build_gpu_code(
        model,
        architectures=architectures,
        levels=levels,
        cache=cache,
        configs=configs,
        cubins=cubins,
        precision=precision,
        report=report,
    )
    if code.on_processor:
        objects = linked(code.host.objects)
        if not objects:
            raise UnsupportedError(code.on_processor[0].reason)
        code = replace(code, host=replace(code.host, objects=objects))
    for architecture in code.images:
        OwnCode().add(gpu_digest(serialized, code, architecture))
    return code
