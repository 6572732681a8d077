"""`HostShare`: what the host computes of a network, which depends on the options of a variant.

With tables, reductions over lanes and wide results, the accelerator computes functions, softmax and
norms that the host computes otherwise. Input: a model and a space. Output: the share of the host
for each of the `Capabilities` that variants of the space have.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from daedal.artifact.artifact import Artifact, Placement
from daedal.codesign.search.variant_space import VariantSpace
from daedal.common.errors import ScheduleError, UnsupportedError, VariantError
from daedal.compiler.targets.capabilities import Capabilities
from daedal.compiler.targets.crossings import HostRates
from daedal.host.time import host_seconds
from daedal.isa.variant import Variant
from daedal.tuning.whole_network import WholeNetwork

__all__ = [
    "HostShare",
    "HostShares",
    "host_share",
    "host_shares",
    "machines_with_options",
    "placed_on_host",
]

_CONVERSIONS = ("DequantizeLinear", "QuantizeLinear")
_OPTIONS = ("tables", "lane_reductions", "wide_requantize")
"""The parameters that `Capabilities` depend on and spaces have."""


@dataclass(frozen=True)
class HostShare:
    """Of one network on machines with the same capabilities.

    Attributes
    ----------
    tensors : the quantized tensors that the host computes, and other machines might not.
    nodes : the operators that the host computes, by their outputs.
    ms : milliseconds that the host takes for one run.
    """

    tensors: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    ms: float = 0.0


HostShares = Mapping[Capabilities, HostShare]
"""Capabilities with which the host would compute more than with the base are missing."""


def host_shares(
    model: bytes, space: VariantSpace, rates: HostRates
) -> dict[Capabilities, HostShare]:
    """The shares on the base with other options.

    The network is compiled once for each of the capabilities whose share does not follow: more
    capabilities never leave more to the host.

    Raises
    ------
    ModelError
        No variant runs a part of the network.
    """
    machines = machines_with_options(space)
    base = Capabilities.of(space.base)
    own = host_share(model, space.base, rates)
    if own is None:  # other variants may run it, with nothing left to the host
        return dict.fromkeys(machines, HostShare())
    found = {base: own}
    # The extremes first, as they tell most of the others.
    for able in sorted(machines, key=lambda item: (not (all(item) or not any(item)), item)):
        if able in found:
            continue
        share = _between(able, found)
        if share is None:
            share = host_share(model, machines[able], rates)
        if share is not None and share.nodes <= own.nodes:
            found[able] = share
    return found


def machines_with_options(space: VariantSpace) -> dict[Capabilities, Variant]:
    """The base with the options of the space: one machine for each of their capabilities."""
    names = [name for name in _OPTIONS if name in space.parameters]
    found = {Capabilities.of(space.base): space.base}
    for values in itertools.product(*(space.parameters[name] for name in names)):
        try:
            machine = space.base.replace(None, **dict(zip(names, values, strict=True)))
        except VariantError:
            continue
        found.setdefault(Capabilities.of(machine), machine)
    return found


def _between(able: Capabilities, known: HostShares) -> HostShare | None:
    """The share that follows from known ones: nothing less than nothing, or that of both less and
    more capabilities."""
    below = [share for other, share in known.items() if able.includes(other)]
    above = [share.nodes for other, share in known.items() if other.includes(able)]
    for share in below:
        if not share.nodes or share.nodes in above:
            return share
    return None


def host_share(model: bytes, machine: Variant, rates: HostRates) -> HostShare | None:
    """The share on one machine; None where nothing fits it. Raises ModelError as `host_shares`."""
    network = WholeNetwork(model, machine)
    try:
        tensors, artifact = frozenset(network.host_reasons), network.artifact({})
    except (ScheduleError, UnsupportedError):
        return None
    nodes = frozenset(item.output for item in placed_on_host(artifact))
    return HostShare(tensors, nodes, 1e3 * host_seconds(artifact, rates))


def placed_on_host(artifact: Artifact) -> tuple[Placement, ...]:
    """The operators of a model that the host computes; conversions between numbers aside."""
    return tuple(
        item for item in artifact.placements if item.where == "host" and item.op not in _CONVERSIONS
    )
