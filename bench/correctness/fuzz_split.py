"""Random models split over accelerator and processor.

    python bench/correctness/fuzz_split.py [--count N]

Each float model (`bench/correctness/random_models/graphs.py`) is quantized, compiled for a variant
with machine code for the host's parts, and runs on the functional simulator. Every layer must be
what the integer reference computes, and every tensor that the processor passes to the accelerator
within one unit (`daedal.check_layers`); final outputs are finite. Models that the quantizer
refuses, or that have no layer for the accelerator, are counted with the reason and do not count as
models.

With `--quantized`, models are quantized already and mostly move elements: transposes, shuffles,
concats and changes of scale between layers. With `--networks`, they are
transformers or networks of images as they are exported. One that takes more than a minute counts as
a hang.

`--variant NAME`, `--seed S` of the first model, `--json F`. Exit status 1 when a model fails.
"""

import argparse
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import daedal
from bench.correctness.random_models.graphs import NETWORKS, RandomGraph, quantized_graph
from bench.json_file import write_json
from daedal.artifact.artifact import Artifact, HostPart
from daedal.common.errors import ModelError, UserError

__all__ = ["main", "split_model"]

DEVIATES = frozenset(
    [
        "AveragePool",
        "GatherElements",
        "GlobalLpPool",
        "GridSample",
        "LRN",
        "LpNormalization",
        "LpPool",
        "Mean",
        "Resize",
    ]
)
"""Operators of which `onnx.reference` computes some cases otherwise than ONNX says (the tests of
`compiler.ops.onnx` name them). The integer reference asks it for what the accelerator does not
run."""


HANG_S = 60
"""Seconds after which a model counts as hanging."""


def split_model(graph: RandomGraph, variant: str, quantized: bool = False) -> tuple[Artifact, str]:
    """The artifact of a random model, and what is wrong with its run, empty if nothing.

    A model that is not `quantized` is quantized first. Raises UserError where there is nothing to
    split, or nothing to compare with.
    """
    for node in graph.model.graph.node:
        if node.op_type in DEVIATES and not quantized:
            raise ModelError(f"the reference must be right, which it may not be for {node.op_type}")
    feeds, model = graph.feeds, graph.model.SerializeToString()
    if not quantized:
        model = daedal.quantize(model, feeds)
    artifact = daedal.compile(model, variant, host=None)
    check = daedal.check_layers(artifact, model, feeds, device="functional")
    first = check.first_difference
    if first is not None:
        return artifact, f"{first.tensor!r} differs: {first.difference}"
    wrong = [
        name
        for name, array in check.result.outputs.items()
        if array.dtype.kind == "f" and not np.isfinite(array).all()
    ]
    return artifact, f"outputs are not finite: {wrong}" if wrong else ""


def _hang(*_: object) -> None:
    raise TimeoutError(f"no result after {HANG_S} s")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run models until enough were split; print what failed and what was refused."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variant", default="tiny")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--quantized", action="store_true")
    kinds.add_argument("--networks", choices=NETWORKS, default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    drawn = quantized_graph if options.quantized else NETWORKS[options.networks]
    signal.signal(signal.SIGALRM, _hang)
    refused: Counter[str] = Counter()
    results: list[dict[str, Any]] = []
    seed = options.seed
    while len(results) < options.count:
        graph = drawn(seed)
        signal.alarm(HANG_S)
        try:
            artifact, failure = split_model(graph, options.variant, options.quantized)
        except UserError as error:
            refused[str(error).split("(")[0][:100]] += 1
        except Exception as error:  # anything else is a finding
            results.append({"seed": seed, "failure": f"{type(error).__name__}: {error}"})
        else:
            parts = [part for part in artifact.parts if isinstance(part, HostPart) and part.model]
            results.append(
                {
                    "seed": seed,
                    "failure": failure,
                    "launches": len(artifact.launches),
                    "compiled": sum(len(part.codes[0].calls) for part in parts if part.codes),
                    "interpreted": sum(
                        len(part.codes[0].interpreted) if part.codes else len(part.nodes)
                        for part in parts
                    ),
                }
            )
        finally:
            signal.alarm(0)
        if results and results[-1]["seed"] == seed and results[-1]["failure"]:
            print(f"seed {seed}: {results[-1]['failure']}", flush=True)
        seed += 1
    failed = [item["seed"] for item in results if item["failure"]]
    for reason, count in refused.most_common():
        print(f"{count:6} refused: {reason}")
    print(
        f"{len(results)} split models, "
        f"{sum(item.get('launches', 0) for item in results)} launches, "
        f"{sum(item.get('compiled', 0) for item in results)} calls of compiled code, "
        f"{sum(item.get('interpreted', 0) for item in results)} interpreted nodes; "
        f"{len(failed)} fail: {failed}"
    )
    write_json(options.json, results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
