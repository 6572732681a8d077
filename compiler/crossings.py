"""What it costs to go to the accelerator and back, and which operators that is too dear for."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.same_elements import SameElements
from daedal.compiler.ops.accelerator.lowering import multiplications
from daedal.compiler.ops.accelerator.traffic import bytes_once
from daedal.isa.variant import Variant

__all__ = ["DEFAULT_HOST", "HostRates", "dear_islands"]


@dataclass(frozen=True)
class HostRates:
    """What the host does in a cycle of the accelerator's clock.

    The defaults are assumed, not measured: a core with numpy beside a machine at 100 MHz, where a
    gigabyte and a gigaoperation a second are the order of magnitude.

    Attributes
    ----------
    launch_cycles : to write the registers, start, and serve the interrupt.
    bytes_per_cycle : of a tensor that it quantizes and packs, or the reverse.
    macs_per_cycle : of a convolution.
    elements_per_cycle : of any other operator's result.
    """

    launch_cycles: int = 2000
    bytes_per_cycle: int = 8
    macs_per_cycle: int = 16
    elements_per_cycle: int = 2


DEFAULT_HOST = HostRates()


def dear_islands(
    parts: Collection[Graph],
    variant: Variant,
    host: HostRates,
    quantized: Collection[str],
    same: SameElements,
) -> Mapping[str, str]:
    """Quantized tensors that the host had better compute itself, and why.

    An island is what hangs together within one launch. It costs the launch where it is alone in it,
    the time of array or bus, and the host's for all bytes that come and go; it saves what its
    operators take on the host. The one that saves most stays in any case.

    Parameters
    ----------
    parts : graphs of the launches.
    quantized : tensors that can be left to the host.
    same : which of them have the elements of what an operator computes.
    """
    found = [
        (graph, nodes, len(islands))
        for graph in parts
        for islands in [list(_islands(graph))]
        for nodes in islands
    ]
    saved = [_saved_cycles(*island, variant, host) for island in found]
    best = max(range(len(found)), key=saved.__getitem__)
    dear: dict[str, str] = {}
    for number, (graph, nodes, _) in enumerate(found):
        if saved[number] >= 0 or number == best:
            continue
        moved = _crossing_bytes(graph, nodes)
        reason = (
            f"to bring {moved:,} bytes to the accelerator and back takes longer than it saves: "
            f"{-saved[number]:,.0f} cycles"
        )
        for node in nodes:
            names = [name for name in same.names(node.output) if name in quantized]
            dear.update(dict.fromkeys(names, reason))
    return dear


def _saved_cycles(
    graph: Graph, nodes: list[Node], num_islands: int, variant: Variant, host: HostRates
) -> float:
    """Cycles on the host minus cycles on the accelerator, crossings included."""
    there = host.launch_cycles if num_islands == 1 else 0.0
    there += _crossing_bytes(graph, nodes) / host.bytes_per_cycle
    here = 0.0
    for node in nodes:
        macs = multiplications(graph, node)
        there += max(
            macs / variant.macs_per_cycle, bytes_once(graph, node, variant) / variant.bus_bytes
        )
        here += macs / host.macs_per_cycle
        here += graph.types[node.output].num_elements / host.elements_per_cycle
    return here - there


def _crossing_bytes(graph: Graph, nodes: list[Node]) -> int:
    """Bytes of the tensors that come from the host or other launches, or go there."""
    read = {name for node in nodes for name in node.inputs if name in graph.inputs}
    left = {node.output for node in nodes if node.output in graph.outputs}
    return sum(graph.types[name].size_bytes for name in read | left)


def _islands(graph: Graph) -> Iterator[list[Node]]:
    """Nodes that are connected by what they compute, in order."""
    parent: dict[str, str] = {node.output: node.output for node in graph.nodes}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for node in graph.nodes:
        for name in node.inputs:
            if name in parent:
                parent[root(name)] = root(node.output)
    islands: dict[str, list[Node]] = {}
    for node in graph.nodes:
        islands.setdefault(root(node.output), []).append(node)
    yield from islands.values()
