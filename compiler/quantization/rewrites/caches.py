"""Brings a decoder's caches in the form that the accelerator can keep in its memory.

Attention of a decoder reads the cached rows of keys and values, and behind them the new ones. Where
both begin with a whole block, the new rows can be stored behind the cached ones without moving
these (`compiler.states`).
"""

from dataclasses import dataclass

import numpy as np

from daedal.compiler.graph.dataflow import Dataflow, is_read_once
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import ints, whole
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.quantization.attentions import attention_of, copy_attention
from daedal.compiler.quantization.rewrites.patterns import add_slice, producer

__all__ = ["align_caches"]

ROWS = 16
"""Rows of a block, of the widest shipped variant; a divisor of it is as good."""

MASKED = -10000.0
"""The mask of a row that is none: its probability is 0."""


@dataclass(frozen=True)
class _Joined:
    """The concat of a cache and new rows along `axis`, and how many both are; `order` of the axes
    in what a product reads."""

    concat: Node
    axis: int
    rows: tuple[int, ...]
    order: tuple[int, ...]


def align_caches(graph: Graph) -> Graph:
    """Fill cached and new rows up to whole blocks; a mask hides what fills them. Exact.

    Before, for 255 cached rows and a new one::

        c = concat(cache, new) axis=2
        w = softmax(add(matmul(q, k), m))               # k and v: transposes of such a c
        y = matmul(w, v)

    After::

        c.filled = concat(pad(cache), pad(new)) axis=2  # 256 + 16 rows
        m.filled = concat(slice(m), hidden, slice(m), hidden)
        w.filled = softmax(add(matmul(q, k.filled), m.filled))
        y = matmul(w.filled, v.filled)
    """
    filled: dict[str, str] = {}
    """Of concats and masks: several layers may share them."""
    return walk(graph, {"matmul": lambda graph, node: _align(graph, node, filled)})


def _align(graph: Rewriter, node: Node, filled: dict[str, str]) -> None:
    attention = attention_of(graph, node)
    if attention is None or attention.mask is None:
        return
    keys, values = _joined(graph, attention.keys, -1), _joined(graph, attention.values, -2)
    if keys is None or values is None or keys.rows != values.rows:
        return
    aligned = all(count % ROWS == 0 for count in keys.rows)
    if aligned or graph.types[attention.mask].shape[-1:] != (sum(keys.rows),):
        return
    operands = {
        field: _fill(graph, item, filled) for field, item in (("keys", keys), ("values", values))
    }
    if attention.mask not in filled:
        filled[attention.mask] = _fill_mask(graph, attention.mask, keys.rows)
    operands["mask"] = filled[attention.mask]
    copy_attention(graph, attention, operands, "filled", output=node.output)


def _joined(graph: Dataflow, name: str, axis: int) -> _Joined | None:
    """The concat of a cache, which is an input, and new rows along what becomes `axis` of `name`,
    or None."""
    order = tuple(range(graph.types[name].rank))
    while (turned := producer(graph, name, "transpose")) is not None:
        order = tuple(ints(turned.attrs, "order")[place] for place in order)
        name = turned.inputs[0]
        if not is_read_once(graph, name):
            return None
    node = producer(graph, name, "concat")
    if node is None or len(node.inputs) != 2 or whole(node.attrs, "axis") != order[axis]:
        return None
    cache = node.inputs[0]
    if cache in graph.producers or graph.is_constant(cache):
        return None
    rows = tuple(graph.types[item].shape[order[axis]] for item in node.inputs)
    return _Joined(node, order[axis], rows, order)


def _fill(graph: Rewriter, item: _Joined, filled: dict[str, str]) -> str:
    """The concat with its operands filled up, in the form that a product reads."""
    name = item.concat.output
    if name not in filled:
        operands = [_pad(graph, operand, item.axis) for operand in item.concat.inputs]
        base = f"{name}.filled"
        filled[name] = graph.add_fresh("concat", operands, item.concat.attrs, base=base)
    order = {"order": item.order}
    return graph.add_fresh("transpose", [filled[name]], order, base=f"{name}.turned")


def _pad(graph: Rewriter, name: str, axis: int) -> str:
    shape = graph.types[name].shape
    pads = [0] * (2 * len(shape))
    pads[len(shape) + axis] = -shape[axis] % ROWS
    return graph.add_fresh("pad", [name], {"pads": tuple(pads)}, base=f"{name}.filled")


def _fill_mask(graph: Rewriter, mask: str, rows: tuple[int, ...]) -> str:
    """The mask with the rows that fill blocks hidden."""
    *outer, _ = graph.types[mask].shape
    parts, begin = [], 0
    for count in rows:
        parts.append(add_slice(graph, mask, len(outer), begin, begin + count, f"{mask}.part"))
        begin += count
        if gap := -count % ROWS:
            hidden = np.full((*outer, gap), MASKED, dtype=np.float32)
            parts.append(graph.fresh_constant(f"{mask}.hidden", hidden))
    return graph.add_fresh("concat", parts, {"axis": len(outer)}, base=f"{mask}.filled")
