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
    """Nodes of ONNX written so far.

    Parameters
    ----------
    graph : whose types the functions may ask for.
    opset : version of the standard operator set, 21 or newer.
    fresh : gives a name that no tensor has.
    """

    def __init__(self, graph: Graph, opset: int, fresh: Callable[[], str]) -> None:
        self.graph = graph
        self.opset = opset
        self._fresh = fresh
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, npt.NDArray[Any]] = {}
        self._written: set[bytes] = set()

    def add(
        self, op_type: str, inputs: Sequence[str], output: str = "", name: str = "", **attrs: Any
    ) -> str:
        """Append a node; the name of its output, a new one where none is given."""
        output = output or self._fresh()
        made = onnx.helper.make_node(op_type, list(inputs), [output], name=name or None, **attrs)
        self.nodes.append(made)
        return output

    def write(
        self, node: Node, op_type: str, inputs: Sequence[str] | None = None, **attrs: Any
    ) -> None:
        """Append the node that computes the output of `node`."""
        given = node.inputs if inputs is None else inputs
        self.add(op_type, given, node.output, node.name, **attrs)

    def copy(self, proto: onnx.NodeProto) -> None:
        """Append a node that is written in ONNX, once for all its outputs."""
        written = bytes(proto.SerializeToString(deterministic=True))
        if written not in self._written:
            self._written.add(written)
            self.nodes.append(proto)

    def clear(self) -> None:
        """Forget nodes and constants: the caller has taken them."""
        self.nodes.clear()
        self.constants.clear()

    def constant(self, value: Any, dtype: str) -> str:
        """The name of a new constant."""
        name = self._fresh()
        self.constants[name] = np.asarray(value, dtype=dtype)
        return name


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
