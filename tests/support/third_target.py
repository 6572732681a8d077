"""A target that is neither the accelerator nor the processor: some operators in numpy.

``daedal.add_target(NumpyTarget(), NumpyPart)`` makes it known. The code of its parts is JSON. What
it computes stays with it, in an `Own`, which notes when the host fetches it.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from daedal.artifact.artifact import TargetPart
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.passes.partition import Part
from daedal.compiler.targets.target import Target
from daedal.compiler.targets.tools import Tools
from daedal.runtime.target_parts import Kept

__all__ = ["NAME", "NumpyPart", "NumpyTarget", "Own"]

NAME = "numpy"

Array = npt.NDArray[Any]

FUNCTIONS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "mul": np.multiply,
    "relu": lambda x: np.maximum(x, np.float32(0)),
    "sub": np.subtract,
}


class NumpyTarget(Target):
    """Float elementwise operators, at a fixed time each."""

    name = NAME
    title = "numpy"
    bytes_per_second = 100e9

    def lacks(self, graph: Graph, node: Node) -> str:
        """See `Target.lacks`."""
        if node.op not in FUNCTIONS:
            return f"{self.title} has no operator {node.op}"
        if any(graph.types[name].dtype != "float32" for name in node.inputs):
            return f"{self.title} computes with float32 only"
        return ""

    def seconds(self, graph: Graph, node: Node) -> float:
        """See `Target.seconds`."""
        return 1e-9

    def compile(self, part: Part, tools: Tools) -> bytes:
        """See `Target.compile`."""
        graph = part.graph
        steps = [[node.op, list(node.inputs), node.output] for node in graph.nodes]
        constants = {name: value.tolist() for name, value in graph.constants.items()}
        return json.dumps({"steps": steps, "constants": constants}).encode()


class Own(Kept):
    """An array that the target keeps."""

    target = NAME
    fetched: ClassVar[list[str]] = []

    def __init__(self, name: str, array: Array) -> None:
        self.name = name
        self.array = array

    def to_host(self) -> Array:
        """See `Kept.to_host`."""
        self.fetched.append(self.name)
        return self.array


class NumpyPart:
    """A part, ready to run."""

    def __init__(self, part: TargetPart) -> None:
        code = json.loads(part.code)
        self._outputs = part.outputs
        self._steps = code["steps"]
        self._constants = {
            name: np.array(values, np.float32) for name, values in code["constants"].items()
        }

    def run(self, values: Mapping[str, Array | Kept]) -> dict[str, Own]:
        """See `LoadedTargetPart.run`."""
        known: dict[str, Array] = dict(self._constants)
        for name, value in values.items():
            known[name] = value.array if isinstance(value, Own) else np.asarray(value)
        for op, inputs, output in self._steps:
            known[output] = FUNCTIONS[op](*(known[name] for name in inputs))
        return {name: Own(name, known[name]) for name in self._outputs}
