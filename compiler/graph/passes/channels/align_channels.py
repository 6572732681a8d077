"""Rewrites moves of channels that do not fit whole blocks as 1x1 convolutions by zeros and ones."""

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, AttrValue, Graph, Node
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.compiler.graph.ops.movement import pad_margins
from daedal.compiler.graph.ops.registry import ints, whole
from daedal.compiler.graph.selection import PIXELWISE

__all__ = ["align_channels"]


def align_channels(graph: Graph, *, block: int) -> Graph:
    """Let slice, pad and concat move whole blocks of `block` channels. Exact.

    The scratchpads cannot permute the lanes of a block, but a product with a matrix of zeros and
    ones can. It reads the map once and writes the result once, as a copy would. Unless the map has
    many channels, its products are hidden behind the transfers. A concat first places its operands
    at block boundaries, which leaves gaps, and one convolution closes the gaps. That moves twice
    the bytes of a concat of whole blocks.

    Before (blocks of 16)::

        y = q_pad(x, p) pads=0,8,0,0,0,8,0,0 pad_value=v ...      # x: int8[1,16,8,8]

    After::

        const y.select: int8[32,16,1,1]
        y = q_conv2d(x, y.select, y.params) pad_value=v pads=0,0,0,0 strides=1,1 ...
    """
    return _Rewrite(graph, block).run()


class _Rewrite:
    def __init__(self, graph: Graph, block: int) -> None:
        self._graph = graph
        self._block = block
        self._builder = GraphBuilder(graph.name, graph)

    def run(self) -> Graph:
        self._builder.copy_inputs()
        for node in self._graph.nodes:
            match node.op:
                case "q_slice":
                    self._slice(node)
                case "q_pad":
                    self._pad(node)
                case "q_concat":
                    self._concat(node)
                case _:
                    self._builder.copy_node(node)
        return self._builder.finish(self._graph.outputs)

    def _slice(self, node: Node) -> None:
        x, params = node.inputs
        begins, ends, steps = (ints(node.attrs, name) for name in ("begins", "ends", "steps"))
        if begins[1] % self._block == 0 and steps[1] == 1:
            self._builder.copy_node(node)
            return
        shape = self._graph.types[x].shape
        strides = steps[2:]
        if begins[2:] != (0, 0) or ends[2:] != shape[2:]:
            attrs: dict[str, AttrValue] = {
                "begins": (0, 0, *begins[2:]),
                "ends": (*shape[:2], *ends[2:]),
                "steps": (1, 1, *strides),
                **UNCHANGED,
            }
            same = self._builder.constant(
                self._builder.fresh_name(f"{node.output}.identity"), IDENTITY
            )
            part = self._builder.fresh_name(f"{node.output}.part")
            x = self._builder.add("q_slice", [x, same], attrs, output=part, name=node.name)
            strides = (1, 1)
        sources = range(begins[1], ends[1], steps[1])
        matrix = np.zeros((len(sources), shape[1]), dtype=np.int8)
        matrix[np.arange(len(sources)), list(sources)] = 1
        rows = np.repeat(self._graph.constant(params), len(sources), axis=0)
        self._select(node, x, matrix, rows, strides=strides)

    def _pad(self, node: Node) -> None:
        x, params = node.inputs
        _, (front, back), rows, columns = pad_margins(node.attrs)
        channels = self._graph.types[x].shape[1]
        if front % self._block == 0 and (back == 0 or channels % self._block == 0):
            self._builder.copy_node(node)
            return
        matrix = np.zeros((front + channels + back, channels), dtype=np.int8)
        matrix[front + np.arange(channels), np.arange(channels)] = 1
        table = np.repeat(self._graph.constant(params), len(matrix), axis=0)
        # A channel without products gets its value from the bias.
        table[~matrix.any(axis=1), 0] += whole(node.attrs, "pad_value")
        pads = (rows[0], columns[0], rows[1], columns[1])
        self._select(node, x, matrix, table, pads=pads, value=whole(node.attrs, "pad_value"))

    def _concat(self, node: Node) -> None:
        *maps, _ = node.inputs
        channels = ints(node.attrs, "channels")
        *head, last = channels
        if all(count % self._block == 0 for count in head):
            self._builder.copy_node(node)
            return
        gapped = (*(-(-count // self._block) * self._block for count in head), last)
        attrs = {**node.attrs, "channels": gapped}
        joined = self._builder.fresh_name(f"{node.output}.joined")
        self._builder.add("q_concat", node.inputs, attrs, output=joined, name=node.name)
        begins = [sum(gapped[:index]) for index in range(len(maps))]
        sources = [
            begin + index
            for begin, count in zip(begins, channels, strict=True)
            for index in range(count)
        ]
        matrix = np.zeros((len(sources), sum(gapped)), dtype=np.int8)
        matrix[np.arange(len(sources)), sources] = 1
        rows = np.repeat(IDENTITY, len(sources), axis=0)
        self._select(node, joined, matrix, rows, finish=UNCHANGED)

    def _select(
        self,
        node: Node,
        x: str,
        matrix: Array,
        rows: Array,
        *,
        strides: tuple[int, ...] = (1, 1),
        pads: tuple[int, ...] = (0, 0, 0, 0),
        value: int = 0,
        finish: dict[str, AttrValue] | None = None,
    ) -> None:
        """Add the output of `node`: `matrix` (outputs, inputs) times the channels of `x`,
        requantized by `rows`."""
        weights = self._builder.constant(
            self._builder.fresh_name(f"{node.output}.select"), matrix[:, :, None, None]
        )
        params = self._builder.constant(self._builder.fresh_name(f"{node.output}.params"), rows)
        own = {name: node.attrs[name] for name in UNCHANGED}
        attrs: dict[str, AttrValue] = {
            **PIXELWISE,
            "strides": strides,
            "pads": pads,
            "pad_value": value,
            **(own if finish is None else finish),
        }
        self._builder.add(
            "q_conv2d", [x, weights, params], attrs, output=node.output, name=node.name
        )
