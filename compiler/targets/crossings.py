"""The cost of transfers between host and accelerator, and operators not worth offloading."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from math import prod

import numpy as np

from daedal.common.errors import UserError
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.integer_elementwise import ELEMENTWISE
from daedal.compiler.graph.same_elements import SameElements
from daedal.compiler.ops.accelerator.lowering import multiplications
from daedal.compiler.ops.accelerator.traffic import bytes_once
from daedal.isa.variant import Variant

__all__ = ["DEFAULT_HOST", "HostRates", "costly_islands", "narrow_entries"]


@dataclass(frozen=True)
class HostRates:
    """The host's throughput per cycle of the accelerator's clock.

    The defaults are assumed for compiled host code, and an accelerator at 100 MHz: 0.8 GB/s,
    1.6 GMAC/s and 0.2 G elements/s. An embedded core has about these. A server's core has the same
    for bytes and elements, and for products in small or depthwise layers, but ten times as much for
    wide convolutions. The defaults never depend on the machine, so that artifacts do not either;
    `daedal.host.rates` measures. A part that is interpreted, because a node of it is not
    compiled, takes ten to a hundred times as long: it is reported, and not accounted for.

    Attributes
    ----------
    launch_cycles : cycles to write the registers, start, and serve the interrupt.
    bytes_per_cycle : bytes of a tensor quantized and packed, or unpacked and dequantized.
    macs_per_cycle : multiply-accumulates of a convolution.
    elements_per_cycle : elements of any other operator's result.

    Raises UserError for a rate that is not positive.
    """

    launch_cycles: float = 2000
    bytes_per_cycle: float = 8
    macs_per_cycle: float = 16
    elements_per_cycle: float = 2

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise UserError(f"host rates must be positive, not {value} ({field.name})")


DEFAULT_HOST = HostRates()


def costly_islands(
    parts: Collection[Graph],
    variant: Variant,
    host: HostRates,
    quantized: Collection[str],
    same: SameElements,
) -> Mapping[str, str]:
    """Quantized tensors that are cheaper to compute on the host, and why.

    An island is a connected set of operators within one launch. Its cost is the time of the array
    or the bus, whichever is longer, the host's time for all bytes transferred, and the launch
    itself if no other island shares it. It saves the time that its operators would take on the
    host. The island that saves most always stays on the accelerator; one that only prepares an
    operand of another, and computes no tensor of the model, is not taken for it.

    Parameters
    ----------
    parts : graphs of the launches.
    quantized : tensors that the host can compute.
    same : finds those with the same elements as an operator's result.
    """
    found = [
        (graph, nodes, len(islands))
        for graph in parts
        for islands in [list(_islands(graph))]
        for nodes in islands
    ]
    saved = [_saved_cycles(*island, variant, host) for island in found]
    named = [any(_names(node, quantized, same) for node in nodes) for _, nodes, _ in found]
    best = max(range(len(found)), key=lambda number: (named[number], saved[number]))
    costly: dict[str, str] = {}
    for number, (graph, nodes, _) in enumerate(found):
        if saved[number] >= 0 or number == best:
            continue
        moved = _crossing_bytes(graph, nodes)
        reason = (
            f"to bring {moved:,} bytes to the accelerator and back takes longer than it saves: "
            f"{-saved[number]:,.0f} cycles"
        )
        for node in nodes:
            costly.update(dict.fromkeys(_names(node, quantized, same), reason))
    return costly


def narrow_entries(
    parts: Collection[Graph],
    variant: Variant,
    host: HostRates,
    quantized: Collection[str],
    same: SameElements,
) -> Mapping[str, str]:
    """Quantized tensors at the entry of a launch that are cheaper to compute on the host, and why.

    Such a tensor is an elementwise function of one tensor that the host packs, as the normalization
    of an image is. An image has few channels, so the accelerator would move blocks of mostly zeros
    for it, and the layer after it could not read the image as the host packs it. The bytes that
    cross are the same. A launch without another layer that multiplies keeps its entry.

    Parameters
    ----------
    parts, quantized, same : as in `costly_islands`.
    """
    found: dict[str, str] = {}
    for graph in parts:
        for node in graph.nodes:
            source = _entry_of(graph, node)
            if source is None:
                continue
            kinds = [graph.types[name] for name in (source, node.output)]
            there = sum(prod(kind.physical_shape) for kind in kinds) / variant.bus_bytes
            here = kinds[1].num_elements / host.elements_per_cycle
            if here >= there:
                continue
            reason = (
                f"the host computes it before it packs the tensor, in {here:,.0f} cycles instead "
                f"of {there:,.0f}: {kinds[1].shape[1]} channels would fill few lanes"
            )
            found.update(dict.fromkeys(_names(node, quantized, same), reason))
    return found


def _names(node: Node, quantized: Collection[str], same: SameElements) -> list[str]:
    """The tensors of the model that the host computes instead of `node`."""
    return [name for name in same.names(node.output) if name in quantized]


def _entry_of(graph: Graph, node: Node) -> str | None:
    """The tensor from the host that only `node` reads and computes an elementwise function of; None
    if there is none, or no other layer multiplies."""
    operands = [name for name in node.inputs if not graph.is_constant(name)]
    if not _is_elementwise(graph, node) or len(operands) != 1 or operands[0] not in graph.inputs:
        return None
    if len(graph.users[operands[0]]) > 1 or operands[0] in graph.outputs:
        return None
    others = (other for other in graph.nodes if other is not node)
    return operands[0] if any(multiplications(graph, other) for other in others) else None


def _is_elementwise(graph: Graph, node: Node) -> bool:
    """Whether every element of the result depends on one element of the operand: also a depthwise
    convolution of single pixels, which a batch norm becomes."""
    if node.op != "q_conv2d":
        return node.op in ELEMENTWISE
    x, w = (graph.types[name].shape for name in node.inputs[:2])
    return w[1:] == (1, 1, 1) and w[0] == x[1] and graph.types[node.output].shape == x


def _saved_cycles(
    graph: Graph, nodes: list[Node], num_islands: int, variant: Variant, host: HostRates
) -> float:
    """Cycles on the host minus cycles on the accelerator, transfers included."""
    there = host.launch_cycles if num_islands == 1 else 0.0
    there += _crossing_bytes(graph, nodes) / host.bytes_per_cycle
    here = 0.0
    for node in nodes:
        macs = multiplications(graph, node)
        there += max(
            macs / variant.macs_per_cycle, bytes_once(graph, node, variant) / variant.bus_bytes
        )
        here += 0 if _selects(graph, node) else macs / host.macs_per_cycle
        here += graph.types[node.output].num_elements / host.elements_per_cycle
    return here - there


def _selects(graph: Graph, node: Node) -> bool:
    """Whether a layer's products only move channels, which the host does without any."""
    if node.op != "q_conv2d" or graph.types[node.inputs[1]].shape[2:] != (1, 1):
        return False
    weights = graph.constant(node.inputs[1])
    ones = np.count_nonzero(weights)
    return bool(ones <= graph.types[node.output].shape[1] and np.all(weights[weights != 0] == 1))


def _crossing_bytes(graph: Graph, nodes: list[Node]) -> int:
    """Bytes of the tensors that `nodes` exchange with the host or with other launches."""
    read = {name for node in nodes for name in node.inputs if name in graph.inputs}
    left = {node.output for node in nodes if node.output in graph.outputs}
    return sum(graph.types[name].size_bytes for name in read | left)


def _islands(graph: Graph) -> Iterator[list[Node]]:
    """Connected components of the nodes, linked by the tensors that they compute; in order."""
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
