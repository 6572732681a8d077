"""Decides which quantized activations have 16 bits: residual streams, and scores of attention.

Eight bits per tensor lose the small values of a residual stream, which has some large channels, and
the differences of scores that softmax amplifies. Products read 8 bits, but their results can have
16, and softmax and norms read 16.
"""

from collections.abc import Callable, Mapping, Sequence, Set

import onnx

from daedal.compiler.quantization.network import Network
from daedal.compiler.quantization.onnx_operators import NORMS, VIEWS

__all__ = ["reads_wide", "wide_groups"]

_PRODUCTS = ("Gemm", "MatMul")
_SUMS = ("Add", "Sub")


def wide_groups(
    network: Network,
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
    computed : first outputs of nodes that integers compute.
    functions : first outputs of nodes that are part of a function, which a table computes.
    """
    producers, users = network.producers(), network.users()
    members: dict[str, list[str]] = {}
    for name, group in groups.items():
        members.setdefault(group, []).append(name)

    def is_possible(group: str) -> bool:
        return all(
            _can_be_wide(network, producers.get(name), computed, functions)
            for name in members[group]
        )

    wide: set[str] = set()

    def is_wanted(group: str) -> bool:
        return any(
            _is_wide_output(network, producers.get(name), users.get(name, ()))
            or any(_wants_wide(user, groups, wide, functions) for user in users.get(name, ()))
            for name in members[group]
        )

    possible = [group for group in members if is_possible(group)]
    _grow(wide, possible, is_wanted)
    return frozenset(wide)


def reads_wide(network: Network, node: onnx.NodeProto, functions: Set[str]) -> bool:
    """Whether a node that integers compute takes operands of 16 bits."""
    if node.output[0] in functions:
        return False
    if node.op_type == "Mul":
        return any(_is_number(network, name) for name in node.input)
    return node.op_type in (*NORMS, "Softmax", *_SUMS, *VIEWS)


def _grow(wide: set[str], possible: Sequence[str], is_wanted: Callable[[str], bool]) -> None:
    """Add to `wide` what is wanted, until nothing changes."""
    size = -1
    while size < len(wide):
        size = len(wide)
        wide.update(group for group in possible if group not in wide and is_wanted(group))


def _can_be_wide(
    network: Network, node: onnx.NodeProto | None, computed: Set[str], functions: Set[str]
) -> bool:
    if node is None or node.output[0] not in computed:
        return True  # of the host
    if node.op_type in _PRODUCTS:
        return True
    return node.op_type != "Softmax" and reads_wide(network, node, functions)


def _wants_wide(
    user: onnx.NodeProto, groups: Mapping[str, str], wide: Set[str], functions: Set[str]
) -> bool:
    if user.op_type in (*NORMS, "Softmax"):
        return True
    is_sum = user.op_type in (*_SUMS, "Mul") and user.output[0] not in functions
    return is_sum and groups.get(user.output[0]) in wide


def _is_wide_output(
    network: Network, node: onnx.NodeProto | None, users: Sequence[onnx.NodeProto]
) -> bool:
    if node is None or users or node.output[0] not in network.output_names:
        return False
    return node.op_type in (*_PRODUCTS, *VIEWS)


def _is_number(network: Network, name: str) -> bool:
    value = network.constants.get(name)
    return value is not None and value.size == 1
