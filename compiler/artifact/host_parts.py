"""Builds ONNX models for the host's parts; only nodes over constants are in several of them.

Input: the model, and what each part has to compute (`HostTask`). Output: the nodes of each part,
and its serialized ONNX model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from daedal.compiler.frontend.cut import ModelCutter
from daedal.compiler.frontend.host_model import host_model
from daedal.compiler.graph.ops.foreign import names_read

__all__ = ["HostParts", "HostTask"]


@dataclass(frozen=True)
class HostTask:
    """Inputs of a host part, in addition to the results of earlier parts, and its required outputs,
    as names of the model's tensors."""

    known: frozenset[str]
    wanted: tuple[str, ...]


class HostParts:
    """The nodes of each host part.

    A node runs in the first part that needs it. Nodes that depend only on constants are repeated in
    every part that reads them.
    """

    def __init__(self, cutter: ModelCutter, tasks: Sequence[HostTask]) -> None:
        self._cutter = cutter
        self._tasks = tasks
        self.numbers: list[set[int]] = []
        owned: set[int] = set()
        for task in tasks:
            numbers = cutter.needed(task.known, task.wanted)
            constant = {number for number in numbers if self._is_constant(number)}
            self.numbers.append((numbers - owned) | constant)
            owned |= numbers - constant

    def model(self, index: int) -> bytes:
        """The serialized model of a part; empty if it has nothing to compute.

        Raises ModelError as `ModelCutter.part` and `host_model` do.
        """
        numbers = self.numbers[index]
        if not numbers:
            return b""
        nodes = [self._cutter.nodes[number] for number in sorted(numbers)]
        made = {name for node in nodes for name in node.output}
        read = dict.fromkeys(name for node in nodes for name in names_read(node))
        inputs = [
            name for name in read if name not in made and name not in self._cutter.initialized
        ]
        outputs = dict.fromkeys(name for name in self._tasks[index].wanted if name in made)
        outputs.update(dict.fromkeys(self._read_later(index, nodes)))
        return host_model(self._cutter.part(numbers, inputs, list(outputs)))

    def _read_later(self, index: int, nodes: Sequence[onnx.NodeProto]) -> list[str]:
        """The results of `nodes` that later parts read or later tasks require."""
        later: set[str] = set()
        for numbers, task in zip(self.numbers[index + 1 :], self._tasks[index + 1 :], strict=True):
            own = {name for number in numbers for name in self._cutter.nodes[number].output}
            read = {name for number in numbers for name in names_read(self._cutter.nodes[number])}
            later |= (read | set(task.wanted)) - own - task.known
        return [name for node in nodes for name in node.output if name in later]

    def _is_constant(self, number: int) -> bool:
        return all(name in self._cutter.constants for name in self._cutter.nodes[number].output)
