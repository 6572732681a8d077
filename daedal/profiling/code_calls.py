"""What the calls of compiled code compute and move: for profiles of processors and of GPUs."""

import math
from collections.abc import Iterable

import onnx

from daedal.artifact.host_code import BUFFER_BYTES, CodeCall, HostCode, Join

__all__ = ["Operators", "bytes_moved"]


class Operators:
    """The operators of a serialized ONNX model, by the tensors that they give."""

    def __init__(self, model: bytes) -> None:
        nodes = onnx.ModelProto.FromString(model).graph.node
        self._found = {name: str(node.op_type) for node in nodes for name in node.output}

    def of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Of tensors with these names, each once."""
        return tuple(dict.fromkeys(self._found[name] for name in names if name in self._found))


def bytes_moved(code: HostCode, step: CodeCall | Join) -> int:
    """Bytes of the operands and the result of a call, each once."""
    buffers = [code.buffers[number] for number in dict.fromkeys(step.buffers)]
    return sum(math.prod(item.shape) * BUFFER_BYTES[item.dtype] for item in buffers)
