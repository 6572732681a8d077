"""`placements`: tensors whose kernels store them where they are joined, so that nothing is copied.

All tensors of a `Joined` step must be results of kernels that nothing else reads.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.cpu.frame import Frame
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.cpu.program import Interpreted, Joined, TensorProgram, View
from daedal.compiler.graph.ops.foreign import names_read
from daedal.compiler.tir.expr import Buffer, IntImm

__all__ = ["Placement", "placements", "read_by_steps"]


@dataclass(frozen=True)
class Placement:
    """A tensor as a part of the result of `step`, in which it lies in `frame`."""

    step: Joined
    frame: Frame


def read_by_steps(program: TensorProgram) -> list[str]:
    """The names that are read outside formulas, each as often as it is read."""
    names = list(program.outputs)
    for step in program.steps:
        if isinstance(step, View):
            names.append(step.source)
        elif isinstance(step, Joined):
            names += step.sources
        elif isinstance(step, Interpreted):
            names += names_read(step.node)
    return names


def placements(
    program: TensorProgram, kernels: Mapping[te.Tensor, Kernel]
) -> dict[te.Tensor, Placement]:
    """Where the results of some of `kernels` lie."""
    readers = Counter[Buffer](source for item in kernels.values() for source in item.sources)
    readers.update(
        program.tensors[name] for name in read_by_steps(program) if name in program.tensors
    )
    found: dict[te.Tensor, Placement] = {}
    for step in program.steps:
        if not isinstance(step, Joined):
            continue
        parts = [program.tensors[name] for name in step.sources]
        if all(
            part in kernels and kernels[part].frame is None and readers[part] == 1 for part in parts
        ):
            frames = _frames(program, step)
            found |= {
                part: Placement(step, frame) for part, frame in zip(parts, frames, strict=True)
            }
    return found


def _frames(program: TensorProgram, step: Joined) -> list[Frame]:
    """Of all parts of a joined tensor, one after the other."""
    outer, frames, first = program.types[step.name].shape, list[Frame](), 0
    for name in step.sources:
        inner = program.types[name].shape
        before = tuple(first if place == step.axis else 0 for place in range(len(outer)))
        frames.append(Frame(inner, outer, before, IntImm(0)))
        first += inner[step.axis]
    return frames
