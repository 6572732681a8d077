"""`load_host_part`: a part that the host runs, ready to run: as machine code, or interpreted.

Machine code from a file runs only if the user's own compiler made the same here, or the owner
trusts the file (`CodeTrust`). Otherwise the part's ONNX model is compiled again. The compiler gives
equal code for equal models, so code from another machine with the same compiler runs the next time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from onnx import ModelProto

from daedal.artifact.code import code_digest
from daedal.artifact.host_code import HostCode
from daedal.artifact.parts import HostPart
from daedal.common.errors import ArtifactError
from daedal.native.levels import level_to_run
from daedal.native.own_code import OwnCode
from daedal.runtime.host import Arrays, HostModel
from daedal.runtime.host_code import HostProgram
from daedal.runtime.quantized_inputs import QuantizedInputs

__all__ = ["CodeTrust", "CompiledPart", "load_host_part"]


@dataclass(frozen=True)
class CodeTrust:
    """Which machine code from files runs, and what is done about the rest.

    Attributes
    ----------
    trust_file : the owner vouches for the file.
    compile_model : compiles a serialized ONNX model for this processor, or gives None where it
        must be interpreted; without it, code that may not run is an ArtifactError.
    report : called with a sentence where a part is compiled again.
    """

    trust_file: bool = False
    compile_model: Callable[[bytes], HostCode | None] | None = None
    report: Callable[[str], None] | None = None


def load_host_part(
    part: HostPart, what: str, trust: CodeTrust | None = None
) -> "HostModel | CompiledPart":
    """Load a part, which `what` names in errors.

    Raises ArtifactError for a damaged part, and for code that may not run here and cannot be
    compiled again.
    """
    trust = trust or CodeTrust()
    if part.code is None:
        return HostModel(part.model, what)
    problem = _problem(part.model, part.code, trust)
    if not problem:
        return CompiledPart(part, part.code, what)
    if trust.compile_model is None:
        raise ArtifactError(
            f"machine code from a file must be made on this machine, and {what} {problem}; compile "
            "the model here, or run it with `daedal run --trust`"
        )
    interpreted = HostModel(part.model, what)  # checks the model before it is compiled
    if trust.report is not None:
        trust.report(f"{what} {problem}; its ONNX model is compiled again")
    code = trust.compile_model(part.model)
    return interpreted if code is None else CompiledPart(part, code, what)


def _problem(model: bytes, code: HostCode, trust: CodeTrust) -> str:
    """Why code may not run, after the name of its part; empty if it may."""
    level = level_to_run(code.objects)
    if level is None:
        return f"has code for {', '.join(code.objects) or 'no processor'}, not for this one"
    if not code.from_file or trust.trust_file:
        return ""
    if code_digest(model, code, level) not in OwnCode():
        return "has machine code that was not compiled here"
    return ""


class CompiledPart:
    """A part as machine code."""

    def __init__(self, part: HostPart, code: HostCode, what: str) -> None:
        self._program = HostProgram(code)
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
        return self._program.run(values)

    def zeros(self) -> Arrays:
        """Inputs of the right shapes and types, for measurements."""
        return HostModel(self._part.model, self._what).zeros()
