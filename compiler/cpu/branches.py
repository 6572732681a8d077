"""`branch_graph`: the branch of an If with names of its own, to stand in the graph around it.

Names of a branch are known only inside it: those of two branches may be equal.
"""

from collections.abc import Mapping

import onnx

__all__ = ["branch_graph"]


def branch_graph(branch: onnx.GraphProto, prefix: str) -> onnx.GraphProto:
    """`branch` with `prefix` before every name that it defines; other names are those around it."""
    own = (
        *(item.name for item in branch.initializer),
        *(name for node in branch.node for name in node.output if name),
    )
    return _renamed(branch, {name: f"{prefix}.{name}" for name in own})


def _renamed(graph: onnx.GraphProto, names: Mapping[str, str]) -> onnx.GraphProto:
    made = onnx.GraphProto()
    made.CopyFrom(graph)
    for item in (*made.initializer, *made.input, *made.output, *made.value_info):
        item.name = names.get(item.name, item.name)
    for node in made.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                inner.CopyFrom(_renamed(inner, _seen(inner, names)))
    return made


def _seen(graph: onnx.GraphProto, names: Mapping[str, str]) -> Mapping[str, str]:
    """`names` without those that an inner graph defines again."""
    own = {item.name for item in (*graph.input, *graph.initializer)}
    own.update(name for node in graph.node for name in node.output)
    return {name: new for name, new in names.items() if name not in own}
