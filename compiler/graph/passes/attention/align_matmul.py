"""Pads the operands of matrix products to whole blocks."""

import math
from collections.abc import Sequence

import numpy as np

from daedal.common.errors import UnsupportedError, UserError
from daedal.compiler.graph.dataflow import Dataflow, is_accelerated, is_read_once, producer_of
from daedal.compiler.graph.editor import GraphEditor
from daedal.compiler.graph.graph import AttrValue, Graph, Node
from daedal.compiler.graph.ops.attention import ATTENTION_WEIGHTS, MATMULS, WEIGHTED_MEAN
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED, requantize
from daedal.compiler.graph.ops.integer_rows import Q_SOFTMAX
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.graph.selection import is_pixelwise
from daedal.compiler.graph.unfit import UnfitLayers
from daedal.compiler.graph.views import source_of

__all__ = ["align_matmul", "check_fillers", "padded_map", "with_padding"]


def align_matmul(graph: Graph, *, block: int) -> Graph:
    """Let integer matrix products sum over whole blocks and read whole weight rows. Exact.

    Channels that fill a block add nothing to the sums if one of the operands holds its zero point
    in them. If what the layout fills the blocks with is no such value, both are padded. The second
    operand is also padded with pixels; the result's columns from these are dropped. A 1x1
    convolution whose result only this product reads computes the added pixels itself.

    Before (blocks of 16)::

        k = q_conv2d(x, w, p) zero_point=3 ...          # int8[1,24,7,7]
        y = q_matmul(a, k, f, q) columns=49 zero_point_b=3 ...   # a: int8[1,24,7,7]

    After::

        x.column = reshape(x) shape=1,24,49,1
        k.rows = q_conv2d(x.column, w, p) pads=0,0,15,0 ...     # int8[1,24,64,1]
        y = q_matmul(a, k.rows, f, q) columns=49 ...
    """
    return walk(graph, dict.fromkeys(MATMULS, lambda graph, node: _align(graph, node, block)))


def _align(graph: Rewriter, node: Node, block: int) -> None:
    a, b, *others = node.inputs
    _, depth, height, width = graph.types[b].shape
    channels, rows = -depth % block, -height * width % block
    zeros = [whole(node.attrs, f"zero_point_{name}") for name in "ab"]
    # Sums of weights are of a alone.
    deciding = list(zip((a, b), zeros, strict=True))[: 1 if node.op == WEIGHTED_MEAN.name else 2]
    if any(_filler(graph, name) == zero for name, zero in deciding):
        channels = 0
    if channels:
        a = padded_map(graph, a, (channels, 0), zeros[0])
        others[-1] = with_padding(graph, graph, others[-1], channels * zeros[0] * zeros[1])
    if rows:
        b = (not channels and _more_pixels(graph, b, rows)) or _in_a_column(graph, b)
    _, _, height, width = graph.types[b].shape
    b = padded_map(graph, b, (channels, -height * width % block), zeros[1])
    graph.replace(node, [a, b, *others])


def _filler(graph: Dataflow, name: str) -> int | None:
    """What fills the last block of channels of a map that has no whole blocks, if it is known."""
    root, _ = source_of(graph, name)
    if not is_accelerated(graph, root):
        return 0  # The host packs it.
    producer = graph.producers[root]
    if root != name:
        return None
    if producer.op == ATTENTION_WEIGHTS.name:
        return 0
    if producer.op in ("q_conv2d", Q_SOFTMAX.name):
        # The sum of no products, and a probability of 0.
        return int(requantize(np.zeros(1, dtype=np.int64), np.zeros(3), producer.attrs)[0])
    if producer.op == "q_requantize":
        x, params = producer.inputs
        value = _filler(graph, x)
        if value is not None:
            filled = np.array([value], dtype=np.int64)
            return int(requantize(filled, graph.constant(params)[0], producer.attrs)[0])
    return None


def check_fillers(graph: Graph, parts: Sequence[Graph], block: int) -> None:
    """Check that parts give matrix products the fillers that `align_matmul` has counted on.

    What is packed anew between two parts has zeros behind its last channel.

    Parameters
    ----------
    graph : the whole one after all passes, of which `parts` are those of the accelerator.

    Raises
    ------
    UnfitLayers
        For all products of which no operand holds its zero point there.
    """
    given = {name for part in parts for name in part.outputs}
    errors: dict[str, UserError] = {}
    for part in parts:
        inside = part.producers
        for node in part.nodes:
            if node.op not in MATMULS or part.types[node.inputs[0]].shape[1] % block == 0:
                continue
            sources = [source_of(part, name)[0] for name in node.inputs[:2]]
            anew = [name not in inside and name in given for name in sources]
            zeros = [whole(node.attrs, f"zero_point_{name}") for name in "ab"]
            fillers = [
                0 if crosses else _filler(part, name)
                for crosses, name in zip(anew, node.inputs, strict=False)
            ]
            deciding = 1 if node.op == WEIGHTED_MEAN.name else 2
            pairs = list(zip(fillers, zeros, strict=True))[:deciding]
            if any(anew) and all(filler != zero for filler, zero in pairs):
                errors[node.output] = UnsupportedError(
                    "operands of a product must come from one launch where their channels fill no "
                    f"block of {block} ({node}); use a multiple of it",
                    node.output,
                )
    if errors:
        raise UnfitLayers(graph, errors)


def _in_a_column(graph: Rewriter, name: str) -> str:
    """The map with all pixels in one column, to which any number can be added."""
    images, channels, height, width = graph.types[name].shape
    if width == 1:
        return name
    shape = (images, channels, height * width, 1)
    return graph.add_fresh("reshape", [name], {"shape": shape}, base=f"{name}.column")


def _more_pixels(graph: Rewriter, name: str, count: int) -> str | None:
    """The map, with `count` more pixels of any value, by the 1x1 convolution that computes it.

    The map may view groups of its channels as images. None if there is no such convolution, or
    something else reads its result.
    """
    shape = graph.types[name].shape
    chain = [name]
    while view := producer_of(graph, chain[-1], ("reshape",)):
        chain.append(view.inputs[0])
    conv = graph.producers.get(chain[-1])
    if conv is None or not is_pixelwise(graph, conv):
        return None
    if not all(is_read_once(graph, item) for item in chain):
        return None
    if math.prod(graph.types[chain[-1]].shape[2:]) != math.prod(shape[2:]):
        return None  # Channels of a single pixel are viewed as pixels.
    x, *constants = conv.inputs
    attrs: dict[str, AttrValue] = {**conv.attrs, "pads": (0, 0, count, 0), "pad_value": 0}
    operands, base = [_in_a_column(graph, x), *constants], f"{conv.output}.rows"
    output = graph.add_fresh(conv.op, operands, attrs, base=base, name=conv.name)
    grown, pixels = graph.types[output].shape, shape[2] * shape[3] + count
    box = ((0, grown[0]), (0, grown[1]), (0, pixels - count), (0, 1))
    graph.remember_part(output, conv.output, grown, box)
    if len(chain) == 1:
        return output
    attrs = {"shape": (*shape[:2], pixels, 1)}
    return graph.add_fresh("reshape", [output], attrs, base=f"{name}.rows")


def with_padding(graph: Dataflow, new: GraphEditor, params: str, sum_of_zeros: int) -> str:
    """The parameters of a product over more channels, whose zero points add up to a sum."""
    if not sum_of_zeros:
        return params
    values = graph.constant(params).copy()
    values[:, 0] += sum_of_zeros
    return new.fresh_constant(f"{params}.blocks", values)


def padded_map(graph: Rewriter, name: str, extra: tuple[int, int], value: int) -> str:
    """A map padded with `extra` channels and rows at its end, which hold `value`."""
    if not any(extra):
        return name
    if graph.is_constant(name):
        margins = [(0, 0), (0, extra[0]), (0, extra[1]), (0, 0)]
        filled = np.pad(graph.constant(name), margins, constant_values=value)
        return graph.fresh_constant(f"{name}.blocks", filled)
    output = graph.fresh_name(f"{name}.blocks")
    same = graph.fresh_constant(f"{output}.identity", IDENTITY)
    pads = (0, 0, 0, 0, 0, *extra, 0)
    graph.add("q_pad", [name, same], {"pads": pads, "pad_value": value, **UNCHANGED}, output=output)
    box = tuple((0, extent) for extent in graph.types[name].shape)
    graph.remember_part(output, name, graph.types[output].shape, box)
    return output
