"""Which arguments of calls are an input or an output, so that these need not be copied.

All tensors lie in one block of memory, and those that are never needed at once share bytes. A
buffer that is read and was not written by its own number is another shape of what lies there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from daedal.artifact.host_code import CodeCall, HostCode, InterpretedNode

__all__ = ["Place", "outside_places"]

Place = tuple[int, int]
"""The number of a step, a call, and that of an argument."""


@dataclass
class _Tensor:
    """What lies at an offset for some time; `is_fixed` where it must lie there."""

    places: list[Place] = field(default_factory=list)
    is_fixed: bool = False
    is_written: bool = False
    is_output: bool = False


def outside_places(code: HostCode) -> Mapping[str, tuple[Place, ...]]:
    """The arguments that are each input and each output, by name.

    Tensors are left out that anything but calls uses, or that have two names.
    """
    if code.interpreted:
        return {}
    there: dict[int, _Tensor] = {}
    writers: dict[int, int] = {}
    inputs = {name: _Tensor() for name in code.inputs if name in code.names}
    for name, tensor in inputs.items():
        there[code.buffers[code.names[name]].offset] = tensor
    for number, step in enumerate(code.steps):
        assert not isinstance(step, InterpretedNode)
        last = len(step.buffers) - 1
        for argument, buffer in enumerate(step.buffers):
            offset = code.buffers[buffer].offset
            if argument == last and writers.get(offset) != buffer:
                writers[offset] = buffer
                there[offset] = _Tensor(is_written=True)
            tensor = there.setdefault(offset, _Tensor(is_fixed=True))
            tensor.places.append((number, argument))
            tensor.is_fixed = tensor.is_fixed or not isinstance(step, CodeCall)
    outputs: dict[str, _Tensor] = {}
    for name in code.outputs:
        if name in code.names:
            tensor = there.get(code.buffers[code.names[name]].offset, _Tensor())
            # An input, a constant, or what has another name already.
            tensor.is_fixed = tensor.is_fixed or not tensor.is_written or tensor.is_output
            tensor.is_output = True
            outputs[name] = tensor
    return {
        name: tuple(tensor.places)
        for name, tensor in (inputs | outputs).items()
        if not tensor.is_fixed
    }
