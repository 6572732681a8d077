"""Chains of reshapes and transposes: where each element of a view comes from."""

import numpy as np

from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.registry import get_op, runs_on
from daedal.compiler.target import ACCELERATOR

__all__ = ["view_source"]

_VIEWS = ("reshape", "transpose")


def view_source(graph: Graph, name: str) -> tuple[str, Array] | None:
    """The integer operator's map that `name` is a view of, and the source index of each element.

    The flat indices have the shape of `name`. None if `name` is not such a view, or if the chain
    has no transpose.
    """
    chain: list[Node] = []
    producer = graph.producers.get(name)
    while producer is not None and producer.op in _VIEWS:
        chain.append(producer)
        producer = graph.producers.get(producer.inputs[0])
    if producer is None or not runs_on(producer.op, ACCELERATOR):
        return None
    if not any(node.op == "transpose" for node in chain):
        return None
    root = graph.types[producer.output]
    if root.rank != 4:
        return None
    places: Array = np.arange(root.num_elements, dtype=np.int32).reshape(root.shape)
    for node in reversed(chain):
        places = get_op(node.op).evaluate([places], [graph.types[node.inputs[0]]], node.attrs)
    return producer.output, places
