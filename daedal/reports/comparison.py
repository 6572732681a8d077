"""Text and tables of variants side by side."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from daedal.codesign.compare import ComparedNetwork, ComparedVariant
from daedal.hw.synth.families import DEVICES, RESOURCES
from daedal.reports.parameters import differing_parameters, parameters_by_section, value_text
from daedal.reports.tables import plain_table

__all__ = ["comparison_json", "comparison_lines", "comparison_tables"]

_BAR = 24
_SHOWN_BOUNDS = 2
_TEXTS = ("variant", "", "bound by", "on the host")


def comparison_tables(found: Sequence[ComparedVariant]) -> Iterator[Table]:
    """The hardware, and a table for each network with a bar for the images per second."""
    device = DEVICES[found[0].family]
    is_routed = any(item.implementation is not None for item in found)
    last = ("routed MHz",) if is_routed else ()
    heads = ("variant", "array", *RESOURCES.values(), "fits", "MHz", "interval", *last)
    hardware = plain_table(f"Hardware on {device.name}, estimated", heads, 2)
    for item in found:
        array, clock = item.variant.array, item.clock
        hardware.add_row(
            item.variant.name,
            f"{array.batch}x{array.block_in}x{array.block_out} {array.multiplier_style}",
            *(f"{item.resources[name]:,.0f} ({item.shares[name]:.0%})" for name in RESOURCES),
            "yes" if item.fits else "no",
            f"{clock.mhz:.0f}",
            f"{clock.low:.0f} to {clock.high:.0f}",
            *([_known(item.routed_mhz)] if is_routed else []),
        )
    yield hardware
    if differing := differing_parameters([item.variant for item in found]):
        yield _parameters_table(found, differing)
    for name in found[0].networks:
        yield _network_table(found, name)


def _parameters_table(
    found: Sequence[ComparedVariant], differing: Mapping[str, Sequence[Any]]
) -> Table:
    heads = ("parameter", *(item.variant.name for item in found))
    table = plain_table("Parameters that differ", heads, 1)
    for name, values in differing.items():
        table.add_row(name, *map(value_text, values))
    return table


def _network_table(found: Sequence[ComparedVariant], name: str) -> Table:
    table = plain_table(name, (), 0)
    is_routed = any(item.implementation is not None for item in found)
    routed = ("routed images/s",) if is_routed else ()
    for title in (
        "variant",
        "cycles",
        "host ms",
        "images/s",
        "interval",
        *routed,
        "",
        "energy",
        *_TEXTS[2:],
    ):
        is_text = title in _TEXTS
        table.add_column(title, justify="left" if is_text else "right", no_wrap=True)
    most = max((frames[0] for item in found if (frames := item.frames(name))), default=1.0)
    for item in found:
        network, frames = item.networks[name], item.frames(name)
        if network.cycles is None or frames is None:
            none = ["-"] * (4 + is_routed)
            table.add_row(item.variant.name, *none, "", "-", network.reason, "")
            continue
        expected, low, high = frames
        bounds = list(network.bounds.items())[:_SHOWN_BOUNDS]
        table.add_row(
            item.variant.name,
            f"{network.cycles:,}",
            f"{network.host_ms:,.3f}",
            f"{expected:,.1f}",
            f"{low:,.1f} to {high:,.1f}",
            *([_known(item.routed_frames(name))] if is_routed else []),
            "█" * max(1, round(_BAR * expected / most)),
            "-" if network.energy is None else f"{network.energy.total:,.4g}",
            ", ".join(f"{bound} {share:.0%}" for bound, share in bounds),
            _operators(network),
        )
    return table


def _known(number: float | None) -> str:
    return "-" if number is None else f"{number:,.1f}"


def _operators(network: ComparedNetwork) -> str:
    """What the host computes, such as Add x 8, Softmax."""
    counts = Counter(item.op for item in network.on_host)
    return ", ".join(name if many == 1 else f"{name} x {many}" for name, many in counts.items())


def comparison_lines(
    found: Sequence[ComparedVariant], host_rates: str = "default"
) -> Iterator[str]:
    """What the numbers are; `host_rates` names the host's rates."""
    is_routed = any(item.implementation is not None for item in found)
    yield (
        "cycles are the cycle model's; area and clock are estimates, and so are images per second; "
        + ("routed ones are of one seed" if is_routed else "daedal synth measures them")
    )
    yield (
        "images per second include the host's time (host ms, of one run: launches, moving tensors, "
        f"its operators), by the {host_rates} host rates"
    )
    for name, many in _several(found).items():
        yield f"a run of {name} takes {many} images; cycles and host ms are of one run"
    yield "energy is of one image, and for comparisons with others of this kit only"
    for item in found:
        if item.implementation is not None and not item.fits:
            short = "; ".join(lack.sentence for lack in item.implementation.shortfalls)
            yield f"{item.variant.name} does not fit: {short}"
        elif not item.fits:
            over = [RESOURCES[name] for name, share in item.shares.items() if share > 1]
            yield f"{item.variant.name} does not fit: too much {', '.join(over)}"
        for name, network in item.networks.items():
            hosts = _hosts(found, name)
            listed = [
                placed.node
                for placed in network.on_host
                if not all(placed.node in nodes for nodes in hosts)
            ]
            if listed:
                yield (
                    f"{item.variant.name} leaves layers of {name} to the host, and another "
                    f"variant runs them: {', '.join(listed)}"
                )


def _several(found: Sequence[ComparedVariant]) -> dict[str, int]:
    """The networks of which one run takes several images, and how many."""
    return {
        name: network.items
        for item in found
        for name, network in item.networks.items()
        if network.items > 1
    }


def _hosts(found: Sequence[ComparedVariant], name: str) -> list[set[str]]:
    """The nodes of a network that the host computes for each variant that runs it."""
    networks = [item.networks[name] for item in found]
    return [
        {placed.node for placed in network.on_host}
        for network in networks
        if network.cycles is not None
    ]


def comparison_json(found: Sequence[ComparedVariant]) -> list[dict[str, Any]]:
    """Plain data."""
    return [
        {
            "variant": item.variant.name,
            "fingerprint": item.variant.fingerprint,
            "parameters": parameters_by_section(item.variant),
            "resources": dict(item.resources),
            "clock": asdict(item.clock),
            "routed": _routed(item),
            "networks": {
                name: {
                    "cycles": network.cycles,
                    "host_ms": network.host_ms,
                    "images_per_run": network.items,
                    "frames_per_second": item.frames(name),
                    "bounds": dict(network.bounds),
                    "reason": network.reason,
                    "energy": None if network.energy is None else asdict(network.energy),
                    "on_host": [
                        {"node": placed.node, "op": placed.op, "why": placed.why}
                        for placed in network.on_host
                    ],
                }
                for name, network in item.networks.items()
            },
        }
        for item in found
    ]


def _routed(item: ComparedVariant) -> dict[str, Any] | None:
    """Plain data of place and route; None where it was not asked for."""
    made = item.implementation
    if made is None:
        return None
    best = made.best
    return {
        "mhz": item.routed_mhz,
        "seed": None if best is None else best.request.seed,
        "worst_path": None if best is None else best.worst.sentence,
        "resources": made.used,
        "problem": "; ".join(lack.sentence for lack in made.shortfalls),
        "frames_per_second": {name: item.routed_frames(name) for name in item.networks},
    }
