"""`build_gpu_code`: a checked ONNX model becomes a `GpuCode`."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import onnx

from daedal.artifact.gpu_code import SPIRV, GpuCode
from daedal.common.errors import ModelError, ScheduleError, TuningError, UnsupportedError
from daedal.compiler.cpu.importer import import_model
from daedal.compiler.cpu.steps import program_code
from daedal.compiler.gpu.architectures import gpu_architectures
from daedal.compiler.gpu.functions import GpuFunctions
from daedal.compiler.gpu.images import gpu_images
from daedal.compiler.gpu.support import check_gpu_code
from daedal.compiler.ops.space import Config
from daedal.native.cache import ObjectCache

__all__ = ["build_gpu_code"]


def build_gpu_code(
    model: onnx.ModelProto,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    architectures: Sequence[str] = (),
    cache: ObjectCache | None = None,
    checked: bool = False,
    configs: Mapping[str, Config] = MappingProxyType({}),
) -> GpuCode:
    """Compile a model for GPUs.

    Parameters
    ----------
    model : checked; a symbolic first dimension of an input is 1.
    shapes : of inputs, where the model leaves them open.
    architectures : as `gpu_architectures` takes them; none: the default ones that have code for all
        kernels.
    cache : keeps images; by default, the user's.
    configs : schedules of kernels, by the keys of their workloads.
    checked : whether kernels announce their accesses to the emulator's detectors, for tests: slow.

    Raises
    ------
    ModelError
        For a damaged model, for shapes that contradict it, for formulas that nest too deeply, and
        for a kernel that GPUs have no code for. Nodes without code for GPUs are interpreted.
    """
    chosen = gpu_architectures(architectures)
    functions = GpuFunctions(checked=checked, has_warps=SPIRV not in chosen, configs=configs)
    try:
        host = program_code(import_model(model, shapes, check=check_gpu_code), functions)
    except RecursionError as error:
        raise ModelError(
            "formulas of compiled code must not nest too deeply, and a node of this model has one "
            "that does; give it fewer operands"
        ) from error
    except ScheduleError as error:
        raise TuningError(
            f"a configuration must build its kernel, and one does not: {error}; tune again"
        ) from error
    images: dict[str, tuple[bytes, ...]] = {}
    for name in chosen:
        try:
            images[name] = gpu_images(functions.texts, name, cache or ObjectCache())
        except UnsupportedError:
            if architectures:  # the user asks for this one
                raise
    return GpuCode(host, functions.kernels, images)
