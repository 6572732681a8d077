"""`gpu_islands`: which of the processor's nodes a GPU runs, by cost.

An island is a connected set of nodes within one part of the processor, all of which the GPU has
kernels for. It goes to the GPU as a whole where its kernels, and the transfers of all tensors that
it exchanges with other targets, take less time than its nodes do on the processor.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.passes.partition import Part
from daedal.compiler.graph.same_elements import is_host_view
from daedal.compiler.targets.crossings import HostRates
from daedal.compiler.targets.gpu import Gpu
from daedal.compiler.targets.names import CPU
from daedal.compiler.targets.products import float_products

__all__ = ["GpuIslands", "gpu_islands"]

_CYCLES_PER_SECOND = 100e6
"""Of the clock that `HostRates` count in."""


@dataclass(frozen=True)
class GpuIslands:
    """What `gpu_islands` decides.

    Attributes
    ----------
    moved : tensors whose nodes the GPU runs.
    reasons : why it does not run others of the processor's nodes, by their tensors.
    """

    moved: frozenset[str]
    reasons: Mapping[str, str]


def gpu_islands(
    parts: Collection[Part], gpu: Gpu, host: HostRates, is_exchanged: Callable[[str], bool]
) -> GpuIslands:
    """The nodes of the processor's parts that `gpu` runs.

    Parameters
    ----------
    host : the processor's rates.
    is_exchanged : whether targets can exchange a tensor: whether the model has it.
    """
    moved, reasons = set[str](), dict[str, str]()
    for part in parts:
        if part.target != CPU:
            continue
        graph = part.graph
        lacking = {node.output: gpu.lacks(graph, node) for node in graph.nodes}
        reasons.update({name: reason for name, reason in lacking.items() if reason})
        able = [node for node in graph.nodes if not lacking[node.output]]
        for island in _islands(graph, _with_borders(graph, able, is_exchanged)):
            reason = _why_not(graph, island, gpu, host)
            if reason:
                reasons.update(dict.fromkeys((node.output for node in island), reason))
            else:
                moved.update(node.output for node in island)
    return GpuIslands(frozenset(moved), reasons)


def _with_borders(
    graph: Graph, nodes: Sequence[Node], is_exchanged: Callable[[str], bool]
) -> list[Node]:
    """Those of `nodes` that exchange only tensors of the model with all others."""
    left = list(nodes)
    while True:
        read, given = _exchanged(graph, left)
        bad = {name for name in (*read, *given) if not is_exchanged(name)}
        kept = [node for node in left if bad.isdisjoint((*node.inputs, *node.outputs))]
        if len(kept) == len(left):
            return left
        left = kept


def _exchanged(graph: Graph, nodes: Sequence[Node]) -> tuple[list[str], list[str]]:
    """Tensors that nodes read from others, and those that others read from them; each once."""
    own = {node.output for node in nodes}
    read = [
        name
        for node in nodes
        for name in node.inputs
        if name not in own and not graph.is_constant(name)
    ]
    given = [
        name
        for name in own
        if name in graph.outputs or any(user.output not in own for user in graph.users[name])
    ]
    return list(dict.fromkeys(read)), sorted(given)


def _islands(graph: Graph, nodes: Sequence[Node]) -> Iterator[list[Node]]:
    """Sets of nodes that are connected by the tensors that they compute, in order."""
    numbers: dict[str, int] = {}
    islands: dict[int, list[Node]] = {}
    for number, node in enumerate(nodes):
        joined = sorted({numbers[name] for name in node.inputs if name in numbers})
        first = joined[0] if joined else number
        members = [item for other in joined for item in islands.pop(other)]
        islands[first] = [*members, node]
        numbers.update(dict.fromkeys((item.output for item in islands[first]), first))
    yield from islands.values()


def _why_not(graph: Graph, island: Sequence[Node], gpu: Gpu, host: HostRates) -> str:
    """Why an island is the processor's; empty if it is the GPU's."""
    if all(is_host_view(node) for node in island):
        return "only the order of elements changes"
    sizes = [graph.types[name].size_bytes for side in _exchanged(graph, island) for name in side]
    crossing = sum(gpu.crossing_seconds(size) for size in sizes)
    there = crossing + sum(gpu.seconds(graph, node) for node in island)
    here = sum(_host_seconds(graph, node, host) for node in island)
    if there < here:
        return ""
    return (
        f"the GPU would take {1e6 * there:,.1f} microseconds, {1e6 * crossing:,.1f} of these for "
        f"{sum(sizes):,} bytes there and back, and the processor takes {1e6 * here:,.1f}"
    )


def _host_seconds(graph: Graph, node: Node, host: HostRates) -> float:
    """About how long the processor takes for a node."""
    if is_host_view(node):
        return 0.0
    elements = sum(graph.types[name].num_elements for name in node.outputs)
    cycles = elements / host.elements_per_cycle
    cycles += float_products(graph, node) / host.macs_per_cycle
    return cycles / _CYCLES_PER_SECOND
