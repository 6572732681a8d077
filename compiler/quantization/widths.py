"""Decides which quantized activations have 16 bits: residual streams, and scores of attention.

Eight bits per tensor lose the small values of a residual stream, which has some large channels, and
the differences of scores that softmax amplifies. Products read 8 bits, but their results can have
16, and softmax and norms read 16.
"""

from collections.abc import Callable, Mapping, Sequence, Set

from daedal.compiler.graph.dataflow import Dataflow
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.quantization.operators import NORMS, SUMS
from daedal.compiler.quantization.rewrites.patterns import number_of

__all__ = ["reads_wide", "wide_groups"]

_PRODUCTS = ("dense", "matmul")


def wide_groups(
    graph: Graph,
    groups: Mapping[str, str],
    computed: Set[str],
    functions: Set[str],
) -> frozenset[str]:
    """Representatives of the groups of activations that have 16 bits.

    Those are what softmax and norms read, what is added up to these, and outputs of the model that
    are results of products; as far as they are results of products, of sums, or of the host.

    Parameters
    ----------
    groups : the representative of every quantized activation.
    computed : results of nodes that integers compute.
    functions : results of nodes that are part of a function, which a table computes.
    """
    members: dict[str, list[str]] = {}
    for name, group in groups.items():
        members.setdefault(group, []).append(name)

    def is_possible(group: str) -> bool:
        return all(
            _can_be_wide(graph, graph.producers.get(name), computed, functions)
            for name in members[group]
        )

    wide: set[str] = set()

    def is_wanted(group: str) -> bool:
        return any(
            _is_wide_output(graph, name)
            or any(_wants_wide(user, groups, wide, functions) for user in graph.users[name])
            for name in members[group]
        )

    possible = [group for group in members if is_possible(group)]
    _grow(wide, possible, is_wanted)
    return frozenset(wide)


def reads_wide(graph: Dataflow, node: Node, functions: Set[str]) -> bool:
    """Whether a node that integers compute takes operands of 16 bits."""
    if node.output in functions:
        return False
    if node.op == "mul":
        return any(number_of(graph, name) is not None for name in node.inputs)
    return node.op in (*NORMS, "softmax", *SUMS, "reshape")


def _grow(wide: set[str], possible: Sequence[str], is_wanted: Callable[[str], bool]) -> None:
    """Add to `wide` what is wanted, until nothing changes."""
    size = -1
    while size < len(wide):
        size = len(wide)
        wide.update(group for group in possible if group not in wide and is_wanted(group))


def _can_be_wide(
    graph: Dataflow, node: Node | None, computed: Set[str], functions: Set[str]
) -> bool:
    if node is None or node.output not in computed:
        return True  # of the host
    if node.op in _PRODUCTS:
        return True
    return node.op != "softmax" and reads_wide(graph, node, functions)


def _wants_wide(user: Node, groups: Mapping[str, str], wide: Set[str], functions: Set[str]) -> bool:
    if user.op in (*NORMS, "softmax"):
        return True
    is_sum = user.op in (*SUMS, "mul") and user.output not in functions
    return is_sum and groups.get(user.output) in wide


def _is_wide_output(graph: Graph, name: str) -> bool:
    node = graph.producers.get(name)
    if node is None or graph.users[name] or name not in graph.outputs:
        return False
    return node.op in (*_PRODUCTS, "reshape")
