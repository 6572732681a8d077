"""`LayerGraph`: builds a graph around one operator."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import AttrValue, Graph
from daedal.compiler.graph.ops.integer import is_wide
from daedal.compiler.graph.types import TensorType
from tests.support.pick import Pick

__all__ = ["Array", "Attrs", "LayerGraph", "inputs_of"]

Array = np.ndarray[Any, Any]
Attrs = dict[str, AttrValue]


def inputs_of(graph: Graph, pick: Pick) -> dict[str, Array]:
    """Values for the inputs of a graph. Operands of a sum without bounds have 15 bits."""
    types = {name: graph.types[name] for name in graph.inputs}
    halved = {name for node in graph.nodes if node.op == "q_sum" for name in node.inputs}
    values = {
        name: pick.int16(kind.shape) if is_wide(kind) else pick.int8(kind.shape)
        for name, kind in types.items()
    }
    return {name: x >> int(name in halved) for name, x in values.items()}


class LayerGraph:
    """Builds a graph around one node."""

    def __init__(self, *maps: tuple[int, ...], wide: Sequence[int] = ()) -> None:
        self.builder = GraphBuilder("layer")
        self.operands = [
            self.builder.input(
                f"x{number}", TensorType(shape, "int16" if number in wide else "int8")
            )
            for number, shape in enumerate(maps)
        ]

    def constant(self, name: str, array: Array) -> None:
        self.operands.append(self.builder.constant(name, array))

    def finish(self, op: str, params: Array, attrs: Attrs) -> Graph:
        self.constant("params", params)
        return self.builder.finish([self.builder.add(op, self.operands, attrs, output="y")])
