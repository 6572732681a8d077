"""`profile_host`: how long each call of compiled code takes on this processor.

>>> [(item.names, item.seconds) for item in profile_host(artifact).calls]
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from daedal.artifact.artifact import Artifact, HostPart
from daedal.artifact.host_code import CodeCall, HostCode, InterpretedNode
from daedal.common.errors import UserError
from daedal.profiling.code_calls import Operators, bytes_moved
from daedal.runtime.host import Arrays
from daedal.runtime.host_code import HostProgram
from daedal.runtime.host_parts import CodeTrust, CompiledPart, load_host_part

__all__ = ["CallProfile", "HostProfile", "profile_host"]

_RUNS, _SECONDS = 20, 0.5
"""At least so many runs, and until when they are repeated if they are short."""


@dataclass(frozen=True)
class CallProfile:
    """A step of a part: a call of compiled code, joined tensors, or an interpreted node.

    Attributes
    ----------
    part : its number.
    names : what it computes, by the model's names; none for a copy of what has no name.
    operators : of ONNX, that give these tensors.
    compiled : whether it is no interpreted node.
    products : multiply-accumulates; 0 where it sums no products.
    bytes_moved : of its operands and its result, once each; 0 for an interpreted node.
    seconds : of one thread; the shortest of some runs.
    """

    part: int
    names: tuple[str, ...]
    operators: tuple[str, ...]
    compiled: bool
    products: int
    bytes_moved: int
    seconds: float


@dataclass(frozen=True)
class HostProfile:
    """All steps in the order in which they run, and the level of the code."""

    level: str
    calls: tuple[CallProfile, ...]

    @property
    def seconds(self) -> float:
        """Of all calls."""
        return sum(item.seconds for item in self.calls)


def profile_host(artifact: Artifact, trust: CodeTrust | None = None) -> HostProfile:
    """Run the compiled parts of `artifact` by one thread, on zeros, and time every call.

    `trust` says which machine code of a file runs, as in `runtime.host_parts`.

    Raises UserError where no part is compiled for this processor, ArtifactError for code that may
    not run.
    """
    found: list[CallProfile] = []
    levels: dict[str, None] = {}
    for number, part in enumerate(artifact.parts):
        if not isinstance(part, HostPart):
            continue
        loaded = load_host_part(part, f"part {number}", trust)
        if isinstance(loaded, CompiledPart) and isinstance(loaded.program, HostProgram):
            program = loaded.program
            levels[program.level] = None
            times = _least_times(program, loaded.zeros())
            found += _calls(number, program.code, times, Operators(part.model))
    if not found:
        raise UserError(
            "an artifact that is profiled on a processor must have code for one, and this has "
            "none; compile it with --target cpu"
        )
    return HostProfile(", ".join(levels), tuple(found))


def _least_times(program: HostProgram, inputs: Arrays) -> dict[int, float]:
    """Seconds of each step, by its number."""
    least = program.time_steps(inputs)
    began, runs = time.perf_counter(), 0
    while runs < _RUNS or time.perf_counter() - began < _SECONDS:
        for step, taken in program.time_steps(inputs).items():
            least[step] = min(taken, least[step])
        runs += 1
    return {step: 1e-9 * taken for step, taken in least.items()}


def _calls(
    part: int, code: HostCode, seconds: Mapping[int, float], operators: Operators
) -> list[CallProfile]:
    by_buffer = {number: name for name, number in code.names.items()}
    found = []
    for number, step in enumerate(code.steps):
        taken = seconds.get(number, 0.0)  # nothing is called to join empty tensors
        if isinstance(step, InterpretedNode):
            found.append(CallProfile(part, (), (step.op,), False, 0, 0, taken))
            continue
        if isinstance(step, CodeCall):
            names, products = step.computes, step.products
        else:
            joined = by_buffer.get(step.buffers[-1])
            names, products = () if joined is None else (joined,), 0
        moved = bytes_moved(code, step)
        found.append(CallProfile(part, names, operators.of(names), True, products, moved, taken))
    return found
