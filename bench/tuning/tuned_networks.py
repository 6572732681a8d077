"""Networks before and after tuning.

    python bench/tuning/tuned_networks.py [NETWORK ...] [--json F]

ResNet-18, MobileNet v1 and v2 of `bench.zoo` on several variants, with memory preset `ddr`: cycles
of the whole network on the cycle model with default schedules and with those that `daedal tune`
finds, and of the layers alone, with the sum of their lower bounds. With `--rtl`, the native RTL
counts both programs, too.

The records are kept in `.daedal/tuned`, a database for each version of the compiler: an interrupted
run continues, and a second run adds its trials to the first. `--fresh` begins without records, for
the time that tuning takes.

Exit status 1 when a tuned network is slower or the RTL counts other cycles; 2 for a mistake on the
command line.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import daedal
from bench.json_file import write_json
from bench.zoo.networks import NETWORKS, Network
from bench.zoo.quantized import quantized
from daedal.artifact.artifact import Artifact
from daedal.common.errors import UserError
from daedal.common.files import make_folder
from daedal.compiler.tune.database import Database
from daedal.compiler.version import compiler_version
from daedal.isa.profile import Profile
from daedal.isa.protocols import Device
from daedal.isa.variant import Variant, load_variant
from daedal.runtime.driver import LoadedProgram
from daedal.sim.rtl.device import RtlDevice
from daedal.tuning.accelerator import AcceleratorTuning, recorded_configs
from daedal.tuning.budget import Budget
from daedal.tuning.network import NetworkTuning, tune_network

__all__ = ["TunedRow", "main", "tuned_row"]

ROOT = Path(__file__).resolve().parents[2]
CHOSEN = ("resnet18", "mobilenet_v1", "mobilenet_v2")
VARIANTS = ("vta", "ecp5", "tiny")
Say = Callable[[str], None]


@dataclass(frozen=True)
class TunedRow:
    """A network on a variant; cycles by default and tuned, in this order.

    Attributes
    ----------
    trials, measured : configurations that this run measured, and all in the database.
    seconds : wall-clock time of this run's tuning.
    network_cycles : of the whole network.
    layer_cycles : sum over its layers that have several schedules, each alone.
    bound_cycles : the sum of their lower bounds; None where one has none.
    kept : kinds of layers that keep their default because the whole network is faster so.
    rtl_cycles : as `network_cycles`, on the native RTL; None if it was not run.
    """

    network: str
    variant: str
    fingerprint: str
    compiler: str
    trials: int
    measured: int
    seconds: float
    network_cycles: tuple[int, int]
    layer_cycles: tuple[int, int]
    bound_cycles: int | None
    kept: int
    layers: tuple[dict[str, object], ...]
    rtl_cycles: tuple[int, int] | None = None

    @property
    def passed(self) -> bool:
        """Whether the tuned network is not slower, and the RTL agrees."""
        before, after = self.network_cycles
        return after <= before and self.rtl_cycles in (None, self.network_cycles)


def tuned_row(
    name: str,
    model: bytes,
    variant: Variant,
    database: Database,
    *,
    trials: int | None,
    seconds: float | None,
    say: Say,
    rtl: Device | None = None,
) -> TunedRow | None:
    """Tune `model`, and count it before and after; None for a run that was interrupted."""
    began = time.monotonic()
    tuning = tune_network(
        AcceleratorTuning(model, variant), database, trials=trials, seconds=seconds, report=say
    )
    if tuning.selection is None:
        return None
    row = _row(name, variant, database.kit, tuning, time.monotonic() - began)
    if rtl is None:
        return row
    found = []
    for configs in ({}, recorded_configs(database, variant, model=model)):
        say(f"{name} on the RTL of {variant.name}")
        found.append(_count(daedal.compile(model, variant, configs=configs), rtl))
    before, after = found
    return replace(row, rtl_cycles=(before, after))


def _row(
    name: str, variant: Variant, compiler: str, tuning: NetworkTuning, seconds: float
) -> TunedRow:
    selection, results = tuning.selection, tuning.results
    assert selection is not None
    bounds = [item.bound_cycles for item in results]
    known = [bound for bound in bounds if bound is not None]
    return TunedRow(
        name,
        variant.name,
        variant.fingerprint,
        compiler,
        tuning.trials,
        sum(len(item.history) for item in results),
        round(seconds, 1),
        (selection.before.total, selection.after.total),
        (
            sum(item.count * item.default_cycles for item in results),
            sum(item.count * item.best_cycles for item in results),
        ),
        sum(item.count * bound for item, bound in zip(results, known, strict=True))
        if len(known) == len(results)
        else None,
        sum(not item.is_used for item in results),
        tuple(
            {
                "layer": item.layers[0],
                "count": item.count,
                "cycles": [item.default_cycles, item.best_cycles],
                "bound": item.bound_cycles,
                "changes": item.changes,
                "measured": len(item.history),
                "is_used": item.is_used,
            }
            for item in results
        ),
    )


def _count(artifact: Artifact, device: Device) -> int:
    """Cycles of all launches. They do not depend on values, so no inputs are written."""
    profiles = []
    for launch in artifact.launches:
        loaded = LoadedProgram.place(launch.program, device)
        profiles.append(device.launch(loaded.program, loaded.bases))
    cycles = Profile.total(profiles).cycles
    assert cycles is not None, "the RTL counts cycles"
    return cycles


def show(console: Console, rows: Sequence[TunedRow]) -> None:
    """A row for each network and variant, and the layers that gained most."""
    heads = ("network", "variant", "default", "tuned", "faster", "layers alone", "tuned", "bound")
    table = Table(*heads, "kept", "measured", "s", "RTL", "")
    for row in rows:
        (before, after), alone = row.network_cycles, row.layer_cycles
        table.add_row(
            NETWORKS[row.network].title if row.network in NETWORKS else row.network,
            row.variant,
            f"{before:,}",
            f"{after:,}",
            f"{before / after:.3f}x",
            *(f"{cycles:,}" for cycles in alone),
            "" if row.bound_cycles is None else f"{row.bound_cycles:,}",
            str(row.kept),
            str(row.measured),
            f"{row.seconds:.0f}",
            "" if row.rtl_cycles is None else " -> ".join(f"{n:,}" for n in row.rtl_cycles),
            "" if row.passed else "missed",
        )
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; 1 where a network is slower or not everything was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--variants", default=",".join(VARIANTS), metavar="NAME,...")
    parser.add_argument("--trials", type=int, help="for each network and variant")
    parser.add_argument("--seconds", type=float, help="for each network and variant")
    parser.add_argument("--fresh", action="store_true", help="begin without records")
    parser.add_argument("--rtl", action="store_true", help="count on the native RTL, too")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    unknown = set(options.networks) - NETWORKS.keys()
    if unknown:
        parser.error(f"a network must be one of {', '.join(NETWORKS)}, not {min(unknown)}")
    console = Console(stderr=True)
    rows: list[TunedRow] = []
    try:
        if options.trials is None and options.seconds is None:
            parser.error("give a budget for each network: --trials or --seconds")
        Budget(options.trials, options.seconds)
        variants = [load_variant(name) for name in options.variants.split(",")]
        networks = [NETWORKS[name] for name in options.networks or CHOSEN]
        for row in _rows(networks, variants, options, console.log):
            rows.append(row)
            document = {"networks": [asdict(item) for item in rows]}
            write_json(options.json, document)
    except UserError as error:
        console.print(f"bench/tuning/tuned_networks.py: {error}")
        return 2
    show(Console(width=160), rows)
    complete = len(rows) == len(networks) * len(variants)
    return int(not complete or not all(row.passed for row in rows))


def _rows(
    networks: Sequence[Network],
    variants: Sequence[Variant],
    options: argparse.Namespace,
    say: Say,
) -> Iterator[TunedRow]:
    """Every network on every variant, until one is interrupted."""
    version = compiler_version()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if options.fresh else ROOT / ".daedal" / "tuned"
        make_folder(folder)
        for variant in variants:
            rtl = None
            if options.rtl:
                rtl = RtlDevice(variant, report=say)
            for network in networks:
                model = quantized(network, report=say)
                with Database(folder / f"{version}.db", kit=version) as database:
                    row = tuned_row(
                        network.name,
                        model,
                        variant,
                        database,
                        trials=options.trials,
                        seconds=options.seconds,
                        say=_steps(say, f"{network.title} on {variant.name}"),
                        rtl=rtl,
                    )
                if row is None:
                    return
                yield row


def _steps(say: Say, what: str) -> Say:
    """Says what has changed of `step: how far`, with a name before it."""
    last = ""

    def report(text: str) -> None:
        nonlocal last
        if text != last:
            say(f"{what}: {text}")
            last = text

    return report


if __name__ == "__main__":
    sys.exit(main())
