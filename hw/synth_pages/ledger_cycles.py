"""Puts the cycles of the ledger (tests/golden/cycles.toml) into the records of synthesis.

Records of docs/synthesis.json keep the cycles of the day they were made; the ledger has today's.
Input: both. Output: the records as docs/hardware.md shows them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from daedal.isa.variant import load_variant

__all__ = ["LEDGER", "OPTIONS_NETWORK", "WORK", "machine_name", "resnet18_machine", "with_ledger"]

LEDGER = Path("tests", "golden", "cycles.toml")
"""Below the repository's root; `make ledger` writes it."""

OPTIONS_NETWORK = "vit_mnist"
"""What is run on machines without options."""

WORK = {
    "digits": "digits",
    "ResNet-8": "resnet8",
    "ALU REQUANTIZE to OUT": "requantize_stream",
    "double-buffered, bus the busiest": "bus_stream",
}
"""Of each work of a variant's alternatives, its name in the ledger."""

STARVED = ", starved"
"""Ends the name of a network's cycles in which units waited for instructions."""

Record = Mapping[str, Any]
Changes = Mapping[str, int | bool | str]
Ledger = Mapping[str, Mapping[str, Mapping[str, int]]]


def machine_name(variant: str, changes: Changes) -> str:
    """A shipped variant with parameters changed, as the ledger calls it:
    ``vta_queue_depth_16``."""
    return "_".join([variant, *(f"{key}_{value}".lower() for key, value in changes.items())])


def resnet18_machine(record: Record) -> tuple[str, Changes]:
    """The variant of a record and, where its multipliers are not those it ships with, these.

    With weights of 8 bits, products in logic take as long as packed ones.
    """
    style = "packed" if record["multipliers"] == "lut" else record["multipliers"]
    shipped = load_variant(record["variant"]).array.multiplier_style
    return record["variant"], {} if style == shipped else {"multiplier_style": style}


def with_ledger(measured: Record, ledger: Ledger) -> dict[str, Any]:
    """The records with the ledger's cycles, where they have any.

    Raises KeyError where the ledger lacks a machine.
    """
    return {
        **measured,
        "variants": [_with_resnet18(record, ledger) for record in measured["variants"]],
        "alternatives": [_with_work(record, ledger) for record in measured["alternatives"]],
        "options": [_with_options(record, ledger) for record in measured["options"]],
    }


def _with_resnet18(record: Record, ledger: Ledger) -> dict[str, Any]:
    if "cycles" not in record["resnet18"]:
        return dict(record)
    entry = _entry(ledger, "resnet18", *resnet18_machine(record))
    return {**record, "resnet18": {name: entry[name] for name in record["resnet18"]}}


def _with_work(record: Record, ledger: Ledger) -> dict[str, Any]:
    cycles: dict[str, int | None] = {}
    for work, old in record["cycles"].items():
        figure = "starved" if work.endswith(STARVED) else "cycles"
        name = WORK[work.removesuffix(STARVED)]
        entry = _entry(ledger, name, record["variant"], record["changes"])
        cycles[work] = None if old is None else entry[figure]
    return {**record, "cycles": cycles}


def _with_options(record: Record, ledger: Ledger) -> dict[str, Any]:
    run = record.get(OPTIONS_NETWORK)
    if run is None:
        return dict(record)
    entry = _entry(ledger, OPTIONS_NETWORK, record["variant"], record["changes"])
    return {
        **record,
        OPTIONS_NETWORK: {**run, "launches": entry["launches"], "cycles": entry["cycles"]},
    }


def _entry(ledger: Ledger, name: str, variant: str, changes: Changes) -> Mapping[str, int]:
    machine = machine_name(variant, changes)
    found = ledger.get(name, {}).get(machine)
    if found is None:
        raise KeyError(
            f"the ledger must have every machine of the page, and lacks {name}.{machine}"
        )
    return found
