"""Estimates of cycles, which searches choose by, against those of the ledger.

    python bench/codesign/cycle_estimates.py [--networks NAME ...]

Nothing is compiled: the ledger has what the cycle model counts. Estimates are those of whole
networks of `bench.zoo`, and of the vision transformer of the shared test data where that is there.
The table has the error of each network and machine; the exit status is 1 where the errors of the
zoo's networks miss the bars of 5 % on average and 10 % at worst. Transformers have no bar.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.changes.ledger_machines import machine
from bench.changes.ledger_models import MissingModel, vit_model
from bench.changes.ledger_table import read_ledger
from bench.zoo.networks import NETWORKS
from bench.zoo.quantized import quantized
from daedal.codesign.cycles.analytic import AnalyticCycles
from daedal.common.errors import VariantError
from daedal.isa.memory_model import PRESETS

VIT = "vit_mnist"
BARS = (0.05, 0.10)
"""The mean of the errors' sizes, and the worst."""
DDR = "ddr"


class Estimated(NamedTuple):
    """A network on a machine: cycles, and the relative error of the estimate."""

    network: str
    machine: str
    memory: str
    cycles: int
    error: float


def compared(networks: Sequence[str]) -> Iterator[Estimated]:
    """All entries of the ledger that are these networks, one image at a time, with tiles for their
    memory."""
    for name, figures in read_ledger().items():
        network, _, rest = name.partition(".")
        known, memory = _machine_and_memory(rest)
        if network not in networks or known is None:
            continue
        variant = machine(known)
        if variant.array.batch > 1:
            continue
        error = _analytic(network, memory)(variant) / figures.cycles - 1
        yield Estimated(network, known, memory, figures.cycles, error)


def _machine_and_memory(name: str) -> tuple[str | None, str]:
    """From the end of an entry's name; no machine where its tiles are for another memory."""
    for memory in ("_ulx3s", "_ideal"):
        known = name.removesuffix(memory)
        if known != name and not known.endswith("_on"):
            return known, memory[1:]
    try:
        machine(name)
    except VariantError:
        return None, DDR
    return name, DDR


@cache
def _analytic(network: str, memory: str) -> AnalyticCycles:
    make: Callable[[], bytes] = (
        vit_model if network == VIT else lambda: quantized(NETWORKS[network])
    )
    return AnalyticCycles(make(), memory=PRESETS[memory])


def met(found: Sequence[Estimated]) -> bool:
    """Whether the zoo's networks meet the bars."""
    sizes = [abs(item.error) for item in found if item.network != VIT]
    return not sizes or (float(np.mean(sizes)) <= BARS[0] and max(sizes) <= BARS[1])


def main() -> int:
    """Compare, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    known = [*NETWORKS, VIT]
    parser.add_argument("--networks", nargs="+", default=known, choices=known, metavar="NAME")
    options = parser.parse_args()
    try:
        found = list(compared(options.networks))
    except MissingModel:
        found = list(compared([name for name in options.networks if name != VIT]))
    table = Table("network", "machine", "memory", "counted", "estimate's error")
    for item in found:
        row = (item.network, item.machine, item.memory, f"{item.cycles:,}", f"{item.error:+.1%}")
        table.add_row(*row)
    console = Console()
    console.print(table)
    for title, some in (
        ("networks of the zoo", [item for item in found if item.network != VIT]),
        (VIT, [item for item in found if item.network == VIT]),
    ):
        sizes = [abs(item.error) for item in some]
        if sizes:
            mean, worst = np.mean(sizes), max(sizes)
            console.print(f"{title}: {len(some)}, mean {mean:.1%}, worst {worst:.1%}")
    return int(not met(found))


if __name__ == "__main__":
    sys.exit(main())
