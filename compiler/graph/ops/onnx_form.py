"""`OnnxForm`: nodes of the graph as nodes of ONNX, which mean the same.

An operator's definition has a function that writes it here (`OpDef.onnx`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from daedal.compiler.graph.graph import Graph, Node

__all__ = ["OnnxForm", "WriteOnnx", "simple"]


class OnnxForm:
    """Nodes of ONNX written so far, and the names that they have `made`.

    Parameters
    ----------
    graph : whose types the functions may ask for.
    opset : version of the standard operator set, 21 or newer.
    fresh : gives a name that no tensor has.
    upgrade : writes a node of the model in that operator set; by default it is in it.
    """

    def __init__(
        self,
        graph: Graph,
        opset: int,
        fresh: Callable[[], str],
        upgrade: Callable[[onnx.NodeProto], Sequence[onnx.NodeProto]] = lambda node: [node],
    ) -> None:
        self.graph = graph
        self.opset = opset
        self._fresh = fresh
        self._upgrade = upgrade
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, npt.NDArray[Any]] = {}
        self.made: set[str] = set()

    def add(
        self, op_type: str, inputs: Sequence[str], output: str = "", name: str = "", **attrs: Any
    ) -> str:
        """Append a node; the name of its output, a new one where none is given."""
        output = output or self._fresh()
        made = onnx.helper.make_node(op_type, list(inputs), [output], name=name or None, **attrs)
        self._append(made)
        return output

    def write(
        self, node: Node, op_type: str, inputs: Sequence[str] | None = None, **attrs: Any
    ) -> None:
        """Append the node that computes the output of `node`."""
        given = node.inputs if inputs is None else inputs
        self.add(op_type, given, node.output, node.name, **attrs)

    def copy(self, proto: onnx.NodeProto) -> None:
        """Append a node of the model, once for all its outputs."""
        if self.made.isdisjoint(proto.output):
            for node in self._upgrade(proto):
                self._append(node)

    def clear(self) -> None:
        """Forget nodes and constants: the caller has taken them."""
        self.nodes.clear()
        self.constants.clear()

    def constant(self, value: Any, dtype: str) -> str:
        """The name of a new constant."""
        name = self._fresh()
        self.constants[name] = np.asarray(value, dtype=dtype)
        return name

    def _append(self, node: onnx.NodeProto) -> None:
        self.nodes.append(node)
        self.made.update(filter(None, node.output))


WriteOnnx = Callable[[OnnxForm, Node], None]


def simple(op_type: str, **renamed: str) -> WriteOnnx:
    """What writes a node of `op_type` with the same operands; `renamed` are ONNX's names of
    attributes by ours."""

    def write(form: OnnxForm, node: Node) -> None:
        attrs: dict[str, Any] = {}
        for name, other in renamed.items():
            value = node.attrs[name]
            attrs[other] = list(value) if isinstance(value, tuple) else value
        form.write(node, op_type, **attrs)

    return write
