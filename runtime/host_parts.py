"""`load_host_part`: a part of the host or a GPU, ready to run: as machine code, or interpreted.

Machine code from a file runs only if the user's own compiler made the same here, or the owner
trusts the file (`CodeTrust`). Otherwise the part's ONNX model is compiled again. The compiler gives
equal code for equal models, so code from another machine with the same compiler runs the next time.
A part with code for GPUs alone is compiled for this processor where no GPU is used.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy.typing as npt
from onnx import ModelProto

from daedal.artifact.code import code_digest
from daedal.artifact.gpu_code import GpuCode
from daedal.artifact.gpu_code_file import gpu_digest
from daedal.artifact.host_code import HostCode
from daedal.artifact.parts import HostPart
from daedal.common.errors import ArtifactError
from daedal.native.levels import level_to_run
from daedal.native.own_code import OwnCode
from daedal.runtime.gpu_device import GpuDevice
from daedal.runtime.gpu_program import GpuProgram, architectures_to_run
from daedal.runtime.host import Arrays, HostModel
from daedal.runtime.host_code import HostProgram, code_to_run
from daedal.runtime.quantized_inputs import QuantizedInputs

__all__ = ["CodeTrust", "CompiledPart", "load_host_part"]

_Compiler = TypeVar("_Compiler")


@dataclass(frozen=True)
class CodeTrust:
    """Which machine code from files runs, and what is done about the rest.

    Attributes
    ----------
    trust_file : the owner vouches for the file.
    compile_model : compiles a serialized ONNX model for this processor, or gives nothing where it
        must be interpreted; without it, code that may not run is an ArtifactError.
    report : called with a sentence where a part is compiled again.
    compile_gpu : compiles a serialized ONNX model for a GPU of these architectures, with the
        precision of the code that may not run, or gives None where the processor must run it;
        without it, code that may not run is an ArtifactError.
    """

    trust_file: bool = False
    compile_model: Callable[[bytes], Sequence[HostCode]] | None = None
    report: Callable[[str], None] | None = None
    compile_gpu: Callable[[bytes, tuple[str, ...], str], GpuCode | None] | None = None


def load_host_part(
    part: HostPart, what: str, trust: CodeTrust | None = None, gpu: GpuDevice | None = None
) -> "HostModel | CompiledPart":
    """Load a part, which `what` names in errors, on `gpu` if it has code for GPUs.

    Raises ArtifactError for a damaged part, and for code that may not run here and cannot be
    compiled again.
    """
    trust = trust or CodeTrust()
    if part.gpu is not None and gpu is not None:
        program = _gpu_program(part, part.gpu, what, trust, gpu)
        if program is not None:
            return CompiledPart(part, program, what)
    code = code_to_run(part.codes)
    if part.codes:
        problem = _problem(part, code, trust)
    elif part.gpu is not None:
        problem = "has code for GPUs alone, and none is used"
    else:
        return HostModel(part.model, what)
    if code is not None and not problem:
        return CompiledPart(part, HostProgram(code), what)
    again = _again(trust.compile_model, what, problem)
    interpreted = HostModel(part.model, what)  # checks the model before it is compiled
    if trust.report is not None:
        trust.report(f"{what} {problem}; its ONNX model is compiled again")
    code = code_to_run(again(part.model))
    return interpreted if code is None else CompiledPart(part, HostProgram(code), what)


def _gpu_program(
    part: HostPart, code: GpuCode, what: str, trust: CodeTrust, gpu: GpuDevice
) -> GpuProgram | None:
    """The part on a GPU; None where it must run on the processor."""
    problem = _gpu_problem(part.model, code, trust, gpu)
    if not problem:
        return GpuProgram(code, gpu)
    again = _again(trust.compile_gpu, what, problem)
    HostModel(part.model, what)  # checks the model before it is compiled
    if trust.report is not None:
        trust.report(f"{what} {problem}; its ONNX model is compiled again")
    made = again(part.model, gpu.architectures, code.precision)
    return None if made is None else GpuProgram(made, gpu)


def _again(compiler: _Compiler | None, what: str, problem: str) -> _Compiler:
    """What compiles a part again whose code may not run."""
    if compiler is None:
        raise ArtifactError(
            f"machine code from a file must be made on this machine, and {what} {problem}; compile "
            "the model here, or run it with `daedal run --trust`"
        )
    return compiler


def _problem(part: HostPart, code: HostCode | None, trust: CodeTrust) -> str:
    """Why the best code for this processor may not run, after the name of its part; empty if it
    may."""
    level = None if code is None else level_to_run(code.objects)
    if code is None or level is None:
        return f"has code for {', '.join(part.objects) or 'no processor'}, not for this one"
    if not code.from_file or trust.trust_file:
        return ""
    if code_digest(part.model, code, level) not in OwnCode():
        return "has machine code that was not compiled here"
    return ""


def _gpu_problem(model: bytes, code: GpuCode, trust: CodeTrust, gpu: GpuDevice) -> str:
    """The same for code for GPUs."""
    architectures = architectures_to_run(code, gpu)
    if not architectures:
        return f"has code for {', '.join(code.images) or 'no GPU'}, not for {gpu.name}"
    if code.on_processor and level_to_run(code.host.objects) is None:
        return f"has functions for {', '.join(code.host.objects)}, not for this processor"
    if not code.from_file or trust.trust_file:
        return ""
    known = OwnCode()
    if any(gpu_digest(model, code, name) not in known for name in architectures):
        return "has machine code that was not compiled here"
    return ""


class CompiledPart:
    """A part as machine code."""

    def __init__(self, part: HostPart, program: HostProgram | GpuProgram, what: str) -> None:
        self.program = program
        self._part = part
        self._what = what
        model = ModelProto.FromString(part.model)
        self.inputs = tuple(item.name for item in model.graph.input)
        self._quantized = QuantizedInputs(model)

    def run(self, values: Mapping[str, npt.NDArray[Any]]) -> Arrays:
        """Outputs by name; numbers are converted where the model takes floats.

        Raises ModelError for a missing input, one of another shape or type, and NaN where it is
        quantized.
        """
        self._quantized.check(values)
        return self.program.run(values)

    def zeros(self) -> Arrays:
        """Inputs of the right shapes and types, for measurements."""
        return HostModel(self._part.model, self._what).zeros()
