"""Text of a graph: stable, one node per line, with the type of every tensor.

graph resnet8 {
  input x: float32[1,3,32,32]
  const w: int8[16,3,3,3] = crc32:5bd0f0a1
  const s: float32[] = 0.5
  y: int8[1,16,32,32] = q_conv2d(x, w, p) strides=1,1 pads=1,1,1,1 ... # conv0
  output y
}
"""

import json
import re
import zlib

import numpy as np

from daedal.compiler.graph.graph import Array, AttrValue, Graph, Node

__all__ = ["print_graph"]

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_./:\-]+\Z")
_MAX_PRINTED_ELEMENTS = 4


def print_graph(graph: Graph) -> str:
    """The text of a graph, ending in a newline."""
    lines = [f"graph {_name(graph.name)} {{"]
    lines += [f"  input {_name(name)}: {graph.types[name]}" for name in graph.inputs]
    lines += [
        f"  const {_name(name)}: {graph.types[name]} = {_value(graph.constant(name))}"
        for name in graph.constants
    ]
    lines += [f"  {_node(graph, node)}" for node in graph.nodes]
    lines += [f"  output {_name(name)}" for name in graph.outputs]
    return "\n".join([*lines, "}", ""])


def _name(name: str) -> str:
    """A name from a model, quoted where it would be ambiguous."""
    return name if _PLAIN_NAME.match(name) else json.dumps(name)


def _value(array: Array) -> str:
    if array.size <= _MAX_PRINTED_ELEMENTS:
        return str(array.tolist())
    return f"crc32:{zlib.crc32(np.ascontiguousarray(array).tobytes()):08x}"


def _attr(value: AttrValue) -> str:
    if isinstance(value, bytes):
        return f"crc32:{zlib.crc32(value):08x}"
    return ",".join(str(item) for item in value) if isinstance(value, tuple) else str(value)


def _node(graph: Graph, node: Node) -> str:
    results = ", ".join(f"{_name(name)}: {graph.types[name]}" for name in node.outputs)
    operands = ", ".join(_name(name) for name in node.inputs)
    attrs = "".join(f" {name}={_attr(value)}" for name, value in sorted(node.attrs.items()))
    comment = "" if node.name in node.outputs else f"  # {_name(node.name)}"
    return f"{results} = {node.op}({operands}){attrs}{comment}"
