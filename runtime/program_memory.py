"""What programs for processors and for GPUs share: their inputs, and the steps that one node is
interpreted in. Tensors lie in a block of memory, here or on a device."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from daedal.artifact.host_code import HostCode, InterpretedNode
from daedal.common.errors import ModelError
from daedal.runtime.host import Arrays, converted
from daedal.runtime.interpreted_node import InterpretedModel

__all__ = ["InterpretedStep", "ProgramMemory", "given_inputs"]

Array = npt.NDArray[Any]


def given_inputs(code: HostCode, values: Mapping[str, Array]) -> tuple[Arrays, Arrays]:
    """The inputs of a run: those that have a buffer, converted to its type, and all others.

    Raises ModelError for a missing input, and for one that does not fit its buffer.
    """
    placed: Arrays = {}
    others: Arrays = {}
    for name in code.inputs:
        buffer = code.buffers[code.names[name]] if name in code.names else None
        if name not in values:
            shape = "" if buffer is None else f" of shape {buffer.shape}"
            raise ModelError(
                f"a run must give the model's input {name!r}{shape}; it got "
                f"{', '.join(map(repr, values)) or 'nothing'}"
            )
        if buffer is None:
            others[name] = values[name]
            continue
        given = np.asarray(values[name])
        if given.shape != buffer.shape:
            raise ModelError(f"input {name!r} must have shape {buffer.shape}, not {given.shape}")
        placed[name] = converted(name, given, np.dtype(buffer.dtype))
    return placed, others


class ProgramMemory(Protocol):
    """Where the tensors of a program lie."""

    def fetch(self, number: int) -> Array:
        """The tensor in a buffer, valid until the next step."""
        ...

    def store(self, number: int, value: Array) -> None:
        """Put a tensor of the buffer's shape there, converted to its type."""
        ...

    def own(self, result: Any) -> Any:
        """The result of a step, outside the memory."""
        ...


class InterpretedStep:
    """One node that ONNX's reference evaluator runs."""

    def __init__(self, step: InterpretedNode, code: HostCode, memory: ProgramMemory) -> None:
        self._op = step.op
        self._model = InterpretedModel(step.model, f"the operator {step.op}")
        self._code = code
        self._memory = memory

    def run(self, values: Arrays) -> None:
        """Run it; `values` has what is in no buffer."""
        memory, names = self._memory, self._code.names
        feeds = {
            name: memory.fetch(names[name]) if name in names else values[name]
            for name in self._model.inputs
        }
        for name, result in self._model.run(feeds).items():
            if name not in names:
                values[name] = memory.own(result)
                continue
            shape = self._code.buffers[names[name]].shape
            if not isinstance(result, np.ndarray | np.generic) or result.shape != shape:
                found = getattr(result, "shape", type(result).__name__)
                raise ModelError(
                    f"an operator must give the shape that ONNX infers, {shape}, and "
                    f"{self._op} gives {found} for {name!r}; export the model again"
                )
            memory.store(names[name], np.asarray(result))
