"""How fast programs are built: ``python bench/kit_speed/compile_rate.py [--json F] [NETWORK ...]``.

Two rates of candidates on ResNet-18's layers, as a tuner measures them: lowered, emitted, linked,
verified, counted by the cycle model, and their result compared. One for the configurations that the
estimate ranks first, which a tuner measures, and one for configurations drawn uniformly, many of
which take ten times as many instructions. Then whole networks: cold, compiled again without a
change, and with the code of one layer to be made anew and the whole program to be linked again. All
seconds are the processor's; the ratios are to the calibration kernel.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.calibration import calibrate
from bench.json_file import write_json
from bench.networks.resnet18 import resnet18
from bench.speed import Speed, on_one_core
from bench.zoo.networks import NETWORKS
from bench.zoo.quantized import quantized
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.layers.segment_store import SegmentStore
from daedal.compiler.layers.workload import layer_kinds
from daedal.compiler.model import compile_model
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.accelerator.lowering import space_of
from daedal.compiler.ops.space import Config
from daedal.compiler.pipeline import compile_graph
from daedal.isa.variant import Variant, load_variant
from daedal.tuning.layer_runner import LayerRunner

__all__ = ["candidate_rates", "main", "network_seconds"]

SEED = 20
FIRST = 30
"""Configurations of a layer that the estimate ranks first: those that a tuner tries."""
DEFAULT_NETWORKS = ("resnet18", "resnet50")

Report = Callable[[str], None]


def layers(graphs: Sequence[Graph], variant: Variant) -> Iterator[tuple[Graph, Node, LayerSpace]]:
    """The first layer of every kind that has configurations."""
    for kind in layer_kinds(graphs):
        space = space_of(kind.graph, kind.node, variant)
        if space is not None:
            yield kind.graph, kind.node, space


def ranked_first(space: LayerSpace, rng: np.random.Generator, count: int) -> list[Config]:
    """`count` of the `FIRST` configurations with the fewest estimated cycles."""
    table = space.all()
    order = np.argsort(space.cycles(table), kind="stable")[:FIRST]
    chosen = rng.permutation(order)[:count]
    return space.configs({knob: column[chosen] for knob, column in table.items()})


def candidate_rates(
    model: bytes, name: str, variant: Variant, count: int, report: Report
) -> list[Speed]:
    """Candidates per second of the network's layers, `count` of each, best-estimated and drawn."""
    rng = np.random.default_rng(SEED)
    graphs = [launch.graph for launch in compile_graph(load_onnx(model), variant).launches]
    seconds, done = [0.0, 0.0], [0, 0]
    calibrations = []
    for graph, node, space in layers(graphs, variant):
        report(f"{name}: candidates of {node.op} {node.output!r}")
        runner = LayerRunner(graph, node, variant)
        runner.measure(space.default)
        calibrations.append(calibrate())
        drawn = (ranked_first(space, rng, count), space.sample(rng, count))
        for which, configs in enumerate(drawn):
            began = time.process_time()
            for config in configs:
                runner.measure(config)
            seconds[which] += time.process_time() - began
            done[which] += len(configs)
    middle = sorted(calibrations, key=lambda item: item.processor_seconds)[len(calibrations) // 2]
    return [
        Speed(
            "candidates",
            f"{name}, {what}",
            "1/s",
            (many / spent,),
            (middle,),
            on_processor=True,
        )
        for what, many, spent in zip(("ranked first", "drawn"), done, seconds, strict=True)
    ]


def network_seconds(
    model: bytes, name: str, variant: Variant, repetitions: int, report: Report
) -> list[Speed]:
    """Seconds to compile a network: cold, unchanged, and with one layer to be made anew."""
    columns: list[list[float]] = [[], [], []]
    calibrations = []
    for number in range(repetitions):
        report(f"{name}: compiling, {number + 1} of {repetitions}")
        calibrations.append(calibrate())
        with tempfile.TemporaryDirectory() as folder:
            programs = []
            for column in range(3):
                if column == 2:
                    # The layer with the largest code, which takes longest. All are linked again.
                    kept = Path(folder).glob("*.segment")
                    max(kept, key=lambda path: path.stat().st_size).unlink()
                    for path in Path(folder).glob("*.program"):
                        path.unlink()
                began = time.process_time()
                artifact = compile_model(model, variant, store=SegmentStore(Path(folder)))
                columns[column].append(time.process_time() - began)
                programs.append([launch.program.encode() for launch in artifact.launches])
            assert programs[0] == programs[1] == programs[2], "kept code gives the same programs"
    return [
        Speed(
            "compiler",
            f"{name}, {what}",
            "s",
            tuple(values),
            tuple(calibrations),
            less_is_better=True,
            on_processor=True,
        )
        for what, values in zip(("cold", "unchanged", "one layer changed"), columns, strict=True)
    ]


def table(speeds: Sequence[Speed], title: str) -> Table:
    """All figures."""
    found = Table("what", "of", "median", "unit", "ratio to calibration", title=title)
    for speed in speeds:
        cells = (f"{speed.median:.3g}", speed.unit, f"{speed.ratio:.3g}")
        found.add_row(speed.simulator, speed.workload, *cells)
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=DEFAULT_NETWORKS, metavar="NETWORK")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--variant", default="vta")
    parser.add_argument("--candidates", type=int, default=4, help="of each layer and kind; 0: none")
    parser.add_argument("--repetitions", type=int, default=3, help="of each compilation")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.networks) - set(NETWORKS))
    if unknown or arguments.candidates < 0 or arguments.repetitions < 1:
        parser.error(f"networks must be some of {', '.join(NETWORKS)}, and numbers positive")
    variant = load_variant(arguments.variant)
    report = Console(stderr=True).print
    core = on_one_core()
    speeds: list[Speed] = []
    if arguments.candidates:
        model = resnet18(np.random.default_rng(SEED)).SerializeToString()
        speeds += candidate_rates(model, "resnet18", variant, arguments.candidates, report)
    for name in arguments.networks:
        model = quantized(NETWORKS[name], report=report)
        speeds += network_seconds(model, name, variant, arguments.repetitions, report)
    Console(width=120).print(table(speeds, f"Compiling for {variant.name}, on core {core}"))
    records = [speed.to_json() for speed in speeds]
    write_json(arguments.json, {"speeds": records})
    return 0


if __name__ == "__main__":
    sys.exit(main())
