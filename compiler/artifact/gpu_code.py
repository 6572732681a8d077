"""`compile_gpu_model`: an ONNX model as kernels for GPUs, recorded as made here."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import onnx

from daedal.artifact.gpu_code import GpuCode
from daedal.artifact.gpu_code_file import gpu_digest
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
) -> GpuCode:
    """Compile a model, and record that this machine made the code (`OwnCode`).

    Images are kept in `cache`, by default the user's. `configs` are schedules of
    kernels, by the keys of their workloads. Raises as `build_gpu_code`.
    """
    model = onnx.ModelProto.FromString(serialized)
    code = build_gpu_code(model, architectures=architectures, cache=cache, configs=configs)
    for architecture in code.images:
        OwnCode().add(gpu_digest(serialized, code, architecture))
    return code
