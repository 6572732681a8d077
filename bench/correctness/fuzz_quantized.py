"""Random quantized models on the accelerator.

    python bench/correctness/fuzz_quantized.py [--count N]

Each model (`bench/correctness/random_models/qdq.py`) has layers of many kinds, scales and types,
and is compiled for a variant that its seed draws, or for `--variant NAME`. Then

- every layer gives the bytes of the integer reference on the functional simulator
  (`daedal.check_layers`);
- every operator of that reference is at most one unit from onnxruntime;
- what the host computes is what onnxruntime computes from the tensors that left the accelerator.

Models run in child processes: a crash, or a model that takes more than `--limit` seconds of CPU
time, is known by its seed. A pass that finds no end warns, which is an error here. Models that the
compiler refuses are counted with the reason. A failing model is shown cut to the first tensor that
fails alike. `--seed S` of the first model, `--json F`.

Exit status 1 when a model fails; 2 for a mistake on the command line.
"""

import argparse
import faulthandler
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import daedal
from bench.changes.ledger_machines import OPTIONS_OF_ATTENTION, WIDER_VTA, machine
from bench.correctness.fuzz_children import collected, report, results_of_children, written
from bench.correctness.random_models.qdq import QdqGraph, qdq_graph
from daedal.artifact.artifact import Artifact
from daedal.checking.integer_reference import compare_operators, processor_graph, run_onnxruntime
from daedal.common.errors import UserError
from daedal.compiler.frontend.cut import cut_model
from daedal.compiler.frontend.reader import read_model
from daedal.devices import open_device
from daedal.runtime.executor import Executor

__all__ = ["failure_of", "main", "variant_of"]

Array = npt.NDArray[Any]

VARIANTS: Mapping[str, int] = {
    "tiny": 5,
    "vta": 5,
    "attention": 5,
    "smallest": 2,
    "batch4": 2,
    "wide": 1,
    "ecp5_half": 1,
    **dict.fromkeys(OPTIONS_OF_ATTENTION, 1),
    **dict.fromkeys(WIDER_VTA, 1),
}
"""By how often they are drawn."""
LIMIT_S = 120.0
"""CPU time of a model."""
HANG_S = 1800.0
"""Seconds without a result after which a model hangs that uses no CPU time."""
TOLERANCE = 1e-3
"""Of floats, relative to the largest element of the tensor."""
ALIKE = 5
"""Letters with which failures of one kind begin."""
FEW, SEVERAL = 0.1, 8
"""Of a tensor behind several scales on the host, this share of elements may be off by some units:
what was rounded otherwise is multiplied."""


def variant_of(seed: int) -> str:
    """The variant that a seed draws."""
    rng = np.random.default_rng((32, seed))
    weights = np.array(list(VARIANTS.values()), np.float64)
    return list(VARIANTS)[int(rng.choice(len(VARIANTS), p=weights / weights.sum()))]


def failure_of(
    model: onnx.ModelProto, feeds: Mapping[str, Array], values: Mapping[str, Array], variant: str
) -> tuple[Artifact, str]:
    """The artifact of a model, and what is wrong with it; empty if nothing.

    `values` has tensors of the model as onnxruntime computes them. Raises UserError where the
    compiler refuses the model.
    """
    data = model.SerializeToString()
    artifact = daedal.compile(data, machine(variant), host=None)
    known = _with_shapes(model, values)
    try:
        return artifact, (
            _wrong_layer(data, artifact, feeds)
            or _wrong_operator(known, artifact, feeds)
            or _wrong_on_host(known, artifact, feeds)
        )
    except UserError as error:  # of a model that was compiled
        raise AssertionError(f"{type(error).__name__}: {error}") from error


def _with_shapes(model: onnx.ModelProto, values: Mapping[str, Array]) -> onnx.ModelProto:
    """The model with constants for computed shapes, which ONNX's inference does not all know."""
    known = onnx.ModelProto.FromString(model.SerializeToString())
    for node in known.graph.node:
        if node.op_type == "Reshape" and node.input[1] in values:
            shape = onnx.numpy_helper.from_array(values[node.input[1]], f"{node.input[1]}.known")
            node.input[1] = shape.name
            if shape.name not in {item.name for item in known.graph.initializer}:
                known.graph.initializer.append(shape)
    return known


def _wrong_layer(data: bytes, artifact: Artifact, feeds: Mapping[str, Array]) -> str:
    """Which layer is not what the integer reference computes."""
    check = daedal.check_layers(artifact, data, feeds, device="functional")
    for item in check.tensors:
        if item.layer is not None and item.differs:
            return f"layer {item.tensor!r} is not the reference's: {item.difference}"
    return f"overwritten: {check.overwritten[0]}" if check.overwritten else ""


def _wrong_operator(model: onnx.ModelProto, artifact: Artifact, feeds: Mapping[str, Array]) -> str:
    """Which operator of the integer reference is not what onnxruntime computes."""
    graph = processor_graph(model.SerializeToString(), artifact.variant, artifact.host_quantized)
    given = {name: feeds[name] for name in graph.inputs}
    for item in compare_operators(model, graph, given):
        if item.largest > 1:
            return f"{item.op} {item.output!r} is {item.largest} from onnxruntime"
    return ""


def _wrong_on_host(model: onnx.ModelProto, artifact: Artifact, feeds: Mapping[str, Array]) -> str:
    """Which tensor of the host is not what onnxruntime computes from those that were there."""
    run = Executor(artifact, open_device("functional", artifact.variant)).run(dict(feeds))
    model = read_model(model.SerializeToString())
    made = {name for node in model.graph.node for name in node.output}
    known = dict(feeds)
    for launch in artifact.launches:
        wanted = [item.name for item in launch.inputs if item.name in made - known.keys()]
        wrong = _unlike(model, known, {name: run.values[name] for name in wanted})
        if wrong:
            return wrong
        for item in (*launch.inputs, *launch.outputs):
            if item.name in made and item.name in run.values:
                known[item.name] = run.values[item.name]
    outputs = {name: np.asarray(array) for name, array in run.outputs.items() if name not in known}
    return _unlike(model, known, outputs)


def _unlike(model: onnx.ModelProto, known: Mapping[str, Array], found: Mapping[str, Array]) -> str:
    """Which of the tensors is not what onnxruntime computes from the known ones."""
    if not found:
        return ""
    part = cut_model(model, list(known), list(found))
    given = {item.name: known[item.name] for item in part.graph.input}
    for name, expected in zip(found, run_onnxruntime(part, given), strict=True):
        array = found[name]
        if array.dtype != expected.dtype or array.shape != expected.shape:
            kinds = f"{array.dtype}{array.shape}, not {expected.dtype}{expected.shape}"
            return f"host {name!r} is {kinds}"
        off = np.abs(array.astype(np.float64) - expected.astype(np.float64))
        unit = _unit(model, name)
        if expected.dtype.kind == "f":
            unit += TOLERANCE * max(float(np.abs(expected).max(initial=0)), 1e-3)
        steps = sum(node.op_type == "QuantizeLinear" for node in part.graph.node)
        few = steps > 1 and np.mean(off > unit) < FEW
        if not off.max(initial=0) <= unit * (SEVERAL if few else 1):
            return (
                f"host {name!r} is off by {off.max():.3g} in {np.mean(off > unit):.1%}, "
                f"allowed is {unit:.3g}"
            )
    return ""


def _unit(model: onnx.ModelProto, name: str) -> float:
    """What rounding may change: 1 of integers, and a step of what is dequantized."""
    kinds = {node.output[0]: node for node in model.graph.node}
    node = kinds.get(name)
    if node is None or node.op_type != "DequantizeLinear":
        quantized = node is not None and node.op_type == "QuantizeLinear"
        return 1.0 if quantized else 0.0
    for item in model.graph.initializer:
        if item.name == node.input[1]:
            return float(np.max(onnx.numpy_helper.to_array(item))) * 1.001
    return 1.0


def _why(graph: QdqGraph, model: onnx.ModelProto, variant: str) -> str:
    """Why a part of a graph fails; empty if it does not, or if it is refused."""
    feeds = {item.name: graph.feeds[item.name] for item in model.graph.input}
    try:
        return failure_of(model, feeds, graph.values, variant)[1]
    except UserError:
        return ""
    except Exception as error:  # compiler and runtime may raise anything: that is the finding
        return f"{type(error).__name__}: {error}"


def _cut(graph: QdqGraph, variant: str, failure: str) -> onnx.ModelProto:
    """The part of a model that computes the first tensor that fails alike."""
    known = read_model(_with_shapes(graph.model, graph.values).SerializeToString())
    for node in graph.model.graph.node:
        for name in node.output:
            try:
                part = cut_model(known, list(graph.feeds), [name])
                if _why(graph, part, variant)[:ALIKE] == failure[:ALIKE]:
                    return part
            except Exception:  # of a part that depends on no input
                continue
    return graph.model


def _limited(seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """What came of one model; one that takes too long ends the process, which says where it was."""
    signal.setitimer(signal.ITIMER_PROF, options.limit)
    try:
        return _result(seed, options.variant)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _result(seed: int, variant: str) -> dict[str, Any]:
    """What came of one model."""
    started = time.process_time()
    variant = variant or variant_of(seed)
    result: dict[str, Any] = {"seed": seed, "variant": variant, "failure": "", "refused": ""}
    try:
        graph = qdq_graph(seed)
        onnx.checker.check_model(graph.model, full_check=True)
    except Exception:  # a defect of the generator
        return result | {"failure": f"no model: {traceback.format_exc(limit=-2)}"}
    result["operators"] = [node.op_type for node in graph.model.graph.node]
    try:
        artifact, result["failure"] = failure_of(graph.model, graph.feeds, graph.values, variant)
        result["launches"] = len(artifact.launches)
        result["layers"] = len(artifact.layers)
    except UserError as error:
        result["refused"] = str(error)
    except Exception as error:  # compiler and runtime may raise anything: that is the finding
        result["failure"] = f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
    result["seconds"] = round(time.process_time() - started, 3)
    if result["failure"]:
        part = _cut(graph, variant, result["failure"])
        result["model"] = onnx.printer.to_text(part)
    return result


def _show(results: Sequence[Mapping[str, Any]]) -> None:
    failed = [result["seed"] for result in results if result["failure"]]
    counts = Counter(name for result in results for name in result.get("operators", []))
    print(f"\n{sum(counts.values())} operators: {dict(counts.most_common())}")
    refused = Counter(result["refused"] for result in results if result.get("refused"))
    for reason, count in refused.most_common():
        print(f"{count:6} refused: {reason}")
    print(
        f"{len(results)} models, {refused.total()} refused, "
        f"{sum(result.get('launches', 0) for result in results)} launches, "
        f"{sum(result.get('layers', 0) for result in results)} layers, "
        f"{sum(result.get('seconds', 0) for result in results):.0f} s; {len(failed)} fail: {failed}"
    )


def _results(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    arguments = ["--limit", str(options.limit)]
    arguments += ["--variant", options.variant] if options.variant else []
    return results_of_children(__file__, arguments, options.seed, options.count, HANG_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(description="random quantized models on the accelerator")
    parser.add_argument("--count", type=int, default=300, help="models")
    parser.add_argument("--seed", type=int, default=0, help="of the first model")
    parser.add_argument("--variant", choices=sorted(VARIANTS), default="")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="CPU seconds of a model")
    parser.add_argument("--json", type=Path, metavar="F", help="write all results")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.count < 1 or options.seed < 0:
        parser.error("--count must be at least 1, and --seed at least 0")
    if options.child:
        seeds = range(options.seed, options.seed + options.count)
        warnings.filterwarnings("error", "pass ", RuntimeWarning)
        faulthandler.register(signal.SIGPROF, chain=True)
        report(seeds, lambda seed: _limited(seed, options))
        return 0
    results = collected(_results(options), options.count)
    _show(results)
    return written(results, options.json)


if __name__ == "__main__":
    sys.exit(main())
