"""Transposes maps on the accelerator by products with the identity matrix."""

import numpy as np

from daedal.compiler.graph.dataflow import Dataflow
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.integer import is_wide
from daedal.compiler.graph.ops.registry import list_ops
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.graph.selection import add_transposed
from daedal.compiler.graph.views import view_source
from daedal.compiler.targets.names import ACCELERATOR

__all__ = ["transposes_to_products"]


def transposes_to_products(graph: Graph) -> Graph:
    """Swap channels and pixels between two integer operators with a `q_matmul`. Exact.

    LOAD and STORE move whole rows, so only a product can permute lanes. Pixel m of the result is
    row m of the identity times all pixels of the map, which become channels. Transposes at the
    border to the host stay on the host, which moves the bytes anyway. Other orders of axes stay.

    Before::

        t = transpose(reshape(x)) order=0,2,1          # x: int8[1,64,7,7]
        b = reshape(t) shape=1,49,64,1
        y = q_matmul(a, b, f, p) ...

    After::

        const b.identity: int8[1,64,64,1]
        b.turned = q_matmul(b.identity, x, ...) columns=49 ...        # int8[1,49,64,1]
        y = q_matmul(a, b.turned, f, p) ...
    """
    turned: dict[str, str] = {}

    def turn(graph: Rewriter, node: Node) -> None:
        for name in node.inputs:
            root = _exchanged(graph, name)
            if root is not None and name not in turned:
                images, channels, *_ = graph.types[root].shape
                ones = np.tile(np.eye(channels, dtype=np.int8), (images, 1, 1))
                product = add_transposed(graph, root, ones, name)
                shape = graph.types[name].shape
                if graph.types[product].shape != shape:
                    attrs = {"shape": shape}
                    product = graph.add_fresh("reshape", [product], attrs, base=f"{name}.turned")
                turned[name] = product
        graph.replace(node, [turned.get(name, name) for name in node.inputs])

    return rewrite(
        graph, dict.fromkeys((op.name for op in list_ops() if ACCELERATOR in op.targets), turn)
    )


def _exchanged(graph: Dataflow, name: str) -> str | None:
    """The integer operator's map that `name` is with channels and pixels swapped, or None. Products
    have no wide operands."""
    found = view_source(graph, name)
    if found is None or is_wide(graph.types[name]):
        return None
    root, places = found
    images, channels, height, width = graph.types[root].shape
    if places.shape[:2] != (images, height * width):
        return None
    start: Array = np.arange(places.size, dtype=places.dtype).reshape(images, channels, -1)
    found_order = places.reshape(images, height * width, channels)
    return root if np.array_equal(found_order, start.transpose(0, 2, 1)) else None
