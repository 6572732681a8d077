"""Brings a decoder's caches in the form that the accelerator can keep in its memory.

Attention of a decoder reads the cached rows of keys and values, and behind them the new ones. Where
both begin with a whole block, the new rows can be stored behind the cached ones without moving
these (`compiler.states`).
"""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.quantization.network import Network
from daedal.compiler.quantization.rewrites.edges import Edges

__all__ = ["align_caches"]

ROWS = 16
"""Rows of a block, of the widest shipped variant; a divisor of it is as good."""

MASKED = -10000.0
"""The mask of a row that is none: its probability is 0."""


def align_caches(network: Network) -> None:
    """Fill cached and new rows up to whole blocks; a mask hides what fills them. Exact.

    Before -> after, for 255 cached rows and a new one::

        Concat(cache, new)              ->  Concat(Pad(cache), Pad(new))    # 256 + 16 rows
        Softmax(Add(MatMul(q, k), m))   ->  Softmax(Add(MatMul(q, k), Concat(m, hidden, m, hidden)))
    """
    edges = Edges.of(network)
    found = [item for node in network.nodes if (item := _cached(edges, node)) is not None]
    _Alignment(edges).run(found)


@dataclass(frozen=True)
class _Cached:
    """Attention over caches: the sum of scores and mask, and the concats of keys and values."""

    masked: onnx.NodeProto
    mask: int
    joined: tuple[tuple[onnx.NodeProto, int], ...]
    rows: tuple[int, int]


def _cached(edges: Edges, node: onnx.NodeProto) -> _Cached | None:
    """The attention around a softmax, if its keys and values are caches and new rows."""
    masked = edges.producer(node.input[0], "Add") if node.op_type == "Softmax" else None
    readers = edges.users.get(node.output[0], ())
    if masked is None or len(readers) != 1 or readers[0].op_type != "MatMul":
        return None
    for index in (0, 1):
        product = _product(edges, masked.input[index])
        mask = edges.shapes.get(masked.input[1 - index], ())
        if product is None or not mask:
            continue
        joined = (_joined(edges, product.input[1], -1), _joined(edges, readers[0].input[1], -2))
        if joined[0] is None or joined[1] is None:
            return None
        rows = {_rows(edges, *item) for item in joined if item is not None}
        if len(rows) == 1 and mask[-1] == sum(next(iter(rows))):
            return _Cached(masked, 1 - index, (joined[0], joined[1]), rows.pop())
    return None


def _product(edges: Edges, name: str) -> onnx.NodeProto | None:
    """The product of matrices that `name` is, or is a multiple of."""
    scaled = edges.producer(name, "Mul")
    if scaled is not None:
        constants = edges.network.constants
        factors = [x for x in scaled.input if x in constants and constants[x].size == 1]
        others = [x for x in scaled.input if x not in factors]
        if len(factors) != 1 or len(others) != 1:
            return None
        (name,) = others
    return edges.producer(name, "MatMul")


def _joined(edges: Edges, name: str, axis: int) -> tuple[onnx.NodeProto, int] | None:
    """The concat of a cache, which is an input, and new rows along what becomes `axis` of `name`,
    and the axis in the concat."""
    axis %= len(edges.shapes[name])
    while (turned := edges.producer(name, "Transpose")) is not None:
        axis = attribute(turned, "perm", ())[axis]
        name = turned.input[0]
        if not edges.network.has_one_user(name, edges.users):
            return None
    node = edges.producer(name, "Concat")
    if node is None or len(node.input) != 2 or len(edges.shapes[name]) < 2:
        return None
    inputs = {item.name for item in edges.network.inputs}
    is_joined = attribute(node, "axis", 0) % len(edges.shapes[name]) == axis
    return (node, axis) if node.input[0] in inputs and is_joined else None


def _rows(edges: Edges, node: onnx.NodeProto, axis: int) -> tuple[int, int]:
    cache, new = (edges.shapes[name][axis] for name in node.input)
    return cache, new


class _Alignment:
    """One run: the nodes that are added in front of others."""

    def __init__(self, edges: Edges) -> None:
        self._network = edges.network
        self._shapes = edges.shapes
        self._before: dict[str, list[onnx.NodeProto]] = {}
        self._masks: dict[tuple[str, tuple[int, int]], str] = {}

    def run(self, found: list[_Cached]) -> None:
        for item in found:
            gaps = (-item.rows[0] % ROWS, -item.rows[1] % ROWS)
            for node, axis in item.joined:
                if node.output[0] not in self._before:
                    self._pad(node, axis, gaps)
            if any(gaps):
                name = item.masked.input[item.mask]
                item.masked.input[item.mask] = self._mask(item, name, gaps)
        self._network.nodes = [
            each
            for node in self._network.nodes
            for each in (*self._before.get(node.output[0], ()), node)
        ]

    def _pad(self, node: onnx.NodeProto, axis: int, gaps: tuple[int, int]) -> None:
        """Fill the operands of a concat."""
        added = self._before[node.output[0]] = []
        for index, (name, gap) in enumerate(zip(node.input, gaps, strict=True)):
            if gap:
                pads = np.zeros((2, len(self._shapes[name])), dtype=np.int64)
                pads[1, axis] = gap
                constant = self._network.add_constant(f"{name}_pads", pads.reshape(-1))
                node.input[index] = output = self._network.fresh(f"{name}_filled")
                added.append(helper.make_node("Pad", [name, constant], [output], name=output))

    def _mask(self, item: _Cached, name: str, gaps: tuple[int, int]) -> str:
        """The mask with the rows that fill blocks hidden."""
        if (name, gaps) in self._masks:
            return self._masks[name, gaps]
        outer, (cached, new) = self._shapes[name][:-1], item.rows
        parts: list[str] = []
        added = self._before.setdefault(item.masked.output[0], [])
        value = self._network.constants.get(name)
        for begin, end, gap in ((0, cached, gaps[0]), (cached, cached + new, gaps[1])):
            if value is not None:
                parts.append(self._constant(f"{name}_part", value[..., begin:end]))
            else:
                bounds = (np.array([number]) for number in (begin, end, len(outer)))
                names = [self._constant(f"{name}_bound", number) for number in bounds]
                parts.append(self._network.fresh(f"{name}_part"))
                added.append(helper.make_node("Slice", [name, *names], parts[-1:], name=parts[-1]))
            if gap:
                hidden = np.full((*outer, gap), MASKED, dtype=np.float32)
                parts.append(self._constant(f"{name}_hidden", hidden))
        output = self._network.fresh(f"{name}_filled")
        added.append(helper.make_node("Concat", parts, [output], name=output, axis=len(outer)))
        self._masks[name, gaps] = output
        return output

    def _constant(self, base: str, value: np.ndarray) -> str:
        return self._network.add_constant(base, np.ascontiguousarray(value))
