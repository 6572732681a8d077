"""`build_gpu_code`: a checked ONNX model becomes a `GpuCode`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import onnx

from daedal.artifact.gpu_code import CUBIN, PRECISIONS, GpuCode
from daedal.common.errors import (
    ToolError,
    UnsupportedError,
    UserError,
)
from daedal.compiler.codegen.gpu.nvptx import ARCHITECTURES
from daedal.compiler.codegen.gpu.ptxas import find_ptxas
from daedal.compiler.cpu.errors import compile_errors
from daedal.compiler.cpu.functions import Functions
from daedal.compiler.cpu.importer import import_model
from daedal.compiler.cpu.steps import program_code
from daedal.compiler.gpu.architectures import gpu_architectures
from daedal.compiler.gpu.functions import GpuFunctions
from daedal.compiler.gpu.images import gpu_images
from daedal.compiler.gpu.support import check_gpu_code
from daedal.compiler.ops.graph.factors import SINGLES
from daedal.compiler.ops.graph.maps import UNBROKEN
from daedal.compiler.ops.space import Config
from daedal.native.cache import ObjectCache
from daedal.native.levels import host_level

__all__ = ["PRECISIONS", "build_gpu_code"]


def build_gpu_code(
    model: onnx.ModelProto,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    architectures: Sequence[str] = (),
    levels: Sequence[str] = (),
    cache: ObjectCache | None = None,
    checked: bool = False,
    configs: Mapping[str, Config] = MappingProxyType({}),
    cubins: bool = False,
    precision: str = "float32",
    report: Callable[[str], None] | None = None,
) -> GpuCode:
    """Compile a model for GPUs.

    Parameters
    ----------
    model : checked; a symbolic first dimension of an input is 1.
    shapes : of inputs, where the model leaves them open.
    architectures : as `gpu_architectures` takes them. A kernel that one of them has no code for is
        the processor's.
    levels : of processors that run such kernels (`native.levels`); none: that of this processor.
    cache : keeps texts of kernels, and images; by default, the user's.
    configs : schedules of kernels, by the keys of their workloads.
    checked : whether kernels announce their accesses to the emulator's detectors, for tests: slow.
    cubins : whether there are cubins beside PTX, where NVIDIA's assembler is installed.
    precision : ``float16`` or ``bfloat16``: products of float32 that tensor cores can compute of
        these are computed so, with sums of float32.
    report : called with a sentence where it is, and refuses a kernel.

    Raises
    ------
    ModelError
        For a damaged model, for shapes that contradict it, and for formulas that nest too deeply.
        Nodes without code for GPUs are interpreted.
    UnsupportedError
        There are kernels, and none is for GPUs.
    """
    if precision not in PRECISIONS:
        raise UserError(f"a precision must be one of {', '.join(PRECISIONS)}, not {precision!r}")
    chosen = gpu_architectures(architectures)
    cache = cache or ObjectCache()
    levels = tuple(levels) or (host_level(),)
    processor = Functions(levels, cache, checked=checked)
    functions = GpuFunctions(
        chosen,
        processor,
        checked=checked,
        configs=configs,
        cache=cache,
        half="" if precision == PRECISIONS[0] else precision,
    )
    with compile_errors():
        program = import_model(
            model, shapes, SINGLES, check=check_gpu_code, layout=UNBROKEN, attentions=True
        )
        host = program_code(program, functions)
    others = functions.on_processor
    if others and not functions.texts:
        raise UnsupportedError(others[0].reason)
    if others:
        host = replace(host, objects={level: processor.objects(level) for level in levels})
    images = {name: gpu_images(functions.texts, name, cache) for name in chosen}
    if cubins and find_ptxas() is not None:
        for name in (item for item in chosen if item in ARCHITECTURES):
            try:
                images[name + CUBIN] = gpu_images(functions.texts, name + CUBIN, cache)
            except ToolError as error:
                if report is not None:
                    report(f"there is no machine code for {name}, only PTX: {error}")
    return GpuCode(host, functions.kernels, images, others, precision)
