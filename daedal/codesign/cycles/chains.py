"""`Pair`: a depthwise convolution and the pointwise one behind it, which may run tile by tile.

Where GEMM reads OUT, the compiler chains such layers (`compiler/link/ordering/chain_tiles.py`):
what the first computes is multiplied on chip, and is neither stored nor loaded. Input: blocked
graphs. Output: the pairs, and the bus words that each saves.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.layers.workload import workload_of
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import GemmMode
from daedal.isa.variant import Variant

__all__ = ["Pair", "pairs_of"]

LEAST_PIXELS = 32
"""Of a tile of the pointwise layer in a chain: the compiler makes none of fewer."""

PARTS = 2
"""That OUT has at a time: one is computed while the other is multiplied."""


@dataclass(frozen=True)
class Pair:
    """Two kinds of layers that follow each other.

    Attributes
    ----------
    first, second : keys of their workloads.
    result_bytes : of what the second reads and nothing else does.
    channels : of that.
    """

    first: str
    second: str
    result_bytes: int
    channels: int

    def saved_words(self, second: LayerSpace, variant: Variant, memory: MemoryModel) -> float:
        """Bus words of the first layer's result that the chain does not store, and does not load; 0
        where there is no chain. Raises UserError where nothing fits."""
        if GemmMode.DENSE_OUT not in GemmMode.of(variant):
            return 0.0
        config = second.default_with(memory)
        blocks = self.channels // variant.array.block_in + config["out_blocks"]
        if scratchpad(variant, Memory.OUT).depth_rows < PARTS * LEAST_PIXELS * blocks:
            return 0.0
        return self.result_bytes / variant.bus_bytes


def pairs_of(graphs: Iterable[Graph]) -> Mapping[Pair, int]:
    """All pairs of blocked graphs, and how often each is there."""
    found: Counter[Pair] = Counter()
    for graph in graphs:
        makers = {node.output: node for node in graph.nodes}
        for node in graph.nodes:
            source = makers.get(node.inputs[0]) if _is_pointwise(graph, node) else None
            if source is None or not _is_depthwise(graph, source):
                continue
            if len(graph.users[source.output]) == 1 and source.output not in graph.outputs:
                result = graph.types[source.output]
                first, second = (workload_of(graph, item).key for item in (source, node))
                found[Pair(first, second, result.size_bytes, result.shape[1])] += 1
    return found


_CONVOLUTIONS = ("q_conv2d", "q_conv2d_add")


def _is_pointwise(graph: Graph, node: Node) -> bool:
    if node.op not in _CONVOLUTIONS:
        return False
    weights = graph.types[node.inputs[1]].shape
    return weights[1] > 1 and weights[2:] == (1, 1)


def _is_depthwise(graph: Graph, node: Node) -> bool:
    return node.op in _CONVOLUTIONS and graph.types[node.inputs[1]].shape[1] == 1
