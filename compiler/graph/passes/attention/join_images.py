"""Makes pixels of images that a matrix product multiplies with the same rows."""

from daedal.compiler.graph.dataflow import Dataflow
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.matmul import Q_MATMUL
from daedal.compiler.graph.rewrite import Rewriter, walk

__all__ = ["join_images"]


def join_images(graph: Graph, *, block: int) -> Graph:
    """Multiply images of one pixel together, as pixels of one image. Exact.

    A tile of a product has one image, so a token whose heads are images takes instructions for each
    of them. Where the heads have one block of channels each, and one image of the second operand is
    that of all, as with a rotary embedding, the heads can be pixels: both have the same bytes.

    Before (blocks of 16)::

        y = q_matmul(a, b, f, p) ...                    # a: int8[4,16,1,1], b: int8[1,16,16,1]

    After::

        a.pixels = images_to_pixels(a) pixels=4         # int8[1,16,4,1]
        y.pixels = q_matmul(a.pixels, b, f, p) ...
        y = pixels_to_images(y.pixels)
    """

    def join(new: Rewriter, node: Node) -> None:
        if _can_be_joined(graph, node, block):
            _join(new, node)

    return walk(graph, {Q_MATMUL.name: join})


def _can_be_joined(graph: Dataflow, node: Node, block: int) -> bool:
    a, b, *_, params = node.inputs
    images, *shape = graph.types[a].shape
    in_block = shape == [block, 1, 1] and graph.types[node.output].shape[1] == block
    shared = graph.types[b].shape[0] == 1 < images and len(graph.constant(params)) == 1
    return in_block and shared


def _join(graph: Rewriter, node: Node) -> None:
    a, *others = node.inputs
    attrs = {"pixels": graph.types[a].shape[0]}
    pixels = graph.add_fresh("images_to_pixels", [a], attrs, base=f"{a}.pixels")
    product = graph.add_fresh(
        node.op, [pixels, *others], node.attrs, base=f"{node.output}.pixels", name=node.name
    )
    graph.add("pixels_to_images", [product], {}, output=node.output)
