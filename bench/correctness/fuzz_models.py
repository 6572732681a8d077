"""Random ONNX models on compiled code.

    python bench/correctness/fuzz_models.py [--count N] [--seed S]

Each model (`bench/correctness/random_models/graphs.py`) is compiled by `daedal.backend.prepare`,
runs twice, and must give what onnxruntime gives: floats within 1e-4 of the largest element,
everything else equal; tensors that are quantized from sums of floats may differ by one unit. Models
run in child processes, so a crash or a hang is known by its seed. A failing model is shown with as
few nodes as fail alike. `--checked` has compiled code check its indices, `--level` compiles for
another level of the processor, `--split` splits every kernel among threads; `--gpu` compiles for
the emulated GPU, which looks for races and orders threads at random. `--networks` draws
transformers or networks of images as they are exported (`bench/correctness/random_models`), not
graphs of any operators. `--json F` writes all results. An interrupt shows those so far.

Exit status 1 when a model fails; 2 for a mistake on the command line.
"""

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import daedal.backend
from bench.correctness.fuzz_children import collected, report, results_of_children, written
from bench.correctness.random_models.graphs import NETWORKS, RandomGraph
from daedal.artifact.host_code import HostCode
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.gpu.build import build_gpu_code
from daedal.native.levels import LEVELS
from daedal.runtime import host_code
from daedal.runtime.gpu_program import GpuProgram
from daedal.sim.gpu.emulator import EmulatedGpu

__all__ = ["TOLERANCE", "How", "differences", "main", "minimized", "results_of"]

Array = npt.NDArray[Any]

TOLERANCE = 1e-4
"""Of floats, relative to the largest element of the tensor."""
HANG_S = 180
"""Seconds after which a model counts as hanging."""


@dataclass(frozen=True)
class How:
    """Which models are drawn, and how they are compiled and run: as `daedal.backend.prepare` does
    where nothing is set."""

    checked: bool = False
    level: str = ""
    split: bool = False
    gpu: bool = False
    networks: str = ""


def results_of(
    model: onnx.ModelProto, feeds: Mapping[str, Array], how: How | None = None
) -> tuple[dict[str, Array], HostCode]:
    """Outputs of compiled code by name; its second run must give the bits of the first."""
    how = how or How()
    names = [item.name for item in model.graph.output]
    if how.gpu:
        return _on_gpu(model, feeds)
    if replace(how, networks="") != How():
        shapes = {name: array.shape for name, array in feeds.items()}
        levels = [how.level] if how.level else []
        code = build_host_code(model, shapes=shapes, levels=levels, checked=how.checked)
        limits = ("LEAST_WORK", "PARALLEL_WORK", "SPLIT_WORK")
        work = {name: 1 if how.split else getattr(host_code, name) for name in limits}
        with patch.multiple(host_code, **work):
            program = host_code.HostProgram(code)
        return dict(program.run(feeds)), code
    prepared = daedal.backend.prepare(model)
    runs = [prepared.run(feeds) for _ in range(2)]
    for name, one, other in zip(names, *runs, strict=True):
        if np.asarray(one).tobytes() != np.asarray(other).tobytes():
            raise AssertionError(f"{name} differs between two runs")
    assert prepared.code is not None
    return dict(zip(names, runs[0], strict=True)), prepared.code


def _on_gpu(
    model: onnx.ModelProto, feeds: Mapping[str, Array]
) -> tuple[dict[str, Array], HostCode]:
    """Outputs of kernels by name, in an order of the threads that the model's size decides."""
    shapes = {name: array.shape for name, array in feeds.items()}
    kernels = build_gpu_code(model, shapes=shapes, architectures=["emulated"], checked=True)
    if kernels.on_processor:
        raise AssertionError(f"GPUs have no code for a kernel: {kernels.on_processor[0].reason}")
    device = EmulatedGpu(races=True, seed=model.ByteSize())
    return dict(GpuProgram(kernels, device).run(feeds)), kernels.host


def differences(graph: RandomGraph, found: Mapping[str, Array]) -> list[str]:
    """What is wrong with results, a sentence for each tensor."""
    wrong = []
    for name, array in found.items():
        wanted = graph.values[name]
        if (array.dtype, array.shape) != (wanted.dtype, wanted.shape):
            wrong.append(
                f"{name} is {array.dtype}{list(array.shape)}, not "
                f"{wanted.dtype}{list(wanted.shape)}"
            )
            continue
        is_float = wanted.dtype.kind == "f"
        allowed = TOLERANCE * max(float(np.abs(wanted).max()), 1e-3) if is_float else 0.0
        if name in graph.units:
            allowed = 1.0
        if array.dtype.kind == "b":
            worst = float((array != wanted).max())
        else:
            worst = float(np.abs(array.astype(np.float64) - wanted.astype(np.float64)).max())
        if not worst <= allowed:
            wrong.append(f"{name} is off by {worst:.3g}, allowed is {allowed:.3g}")
    return wrong


def _failure(graph: RandomGraph, model: onnx.ModelProto, how: How) -> str:
    """Why a model fails; empty if it does not."""
    feeds = {item.name: graph.values[item.name] for item in model.graph.input}
    try:
        wrong = differences(graph, results_of(model, feeds, how)[0])
    except Exception as error:  # compiler and runtime may raise anything: that is the finding
        return f"{type(error).__name__}: {error}"
    return "; ".join(wrong)


def minimized(graph: RandomGraph, how: How | None = None) -> onnx.ModelProto:
    """A model with as few nodes as possible that still fails: tensors become inputs and outputs."""
    how = how or How()
    model = graph.model
    for name in (name for node in model.graph.node for name in node.output):
        if name not in graph.values:  # of a node Constant
            continue
        cut = _cut(graph, set(), name)
        if _failure(graph, cut, how):
            model = cut
            break
    else:
        return model
    inputs: set[str] = set()
    (output,) = (item.name for item in model.graph.output)
    for node in reversed(model.graph.node[:-1]):
        if node.op_type == "Constant":
            continue
        more = inputs | set(node.output)
        cut = _cut(graph, more, output)
        smaller = len(cut.graph.node) < len(model.graph.node)
        if smaller and _failure(graph, cut, how):
            model, inputs = cut, more
    return model


def _cut(graph: RandomGraph, inputs: set[str], output: str) -> onnx.ModelProto:
    """The part of a graph that computes `output` from `inputs` and the inputs of the graph."""
    whole = graph.model.graph
    read, nodes = {output}, []
    for node in reversed(whole.node):
        if read & set(node.output) - inputs:
            nodes.append(node)
            read.update(node.input)
    made = {name for node in nodes for name in node.output}
    given = [name for name in sorted(read) if name in graph.values and name not in made]
    cut = helper.make_graph(
        nodes[::-1],
        "cut",
        [_info(name, graph.values[name]) for name in given],
        [_info(output, graph.values[output])],
        [item for item in whole.initializer if item.name in read],
    )
    return helper.make_model(
        cut, opset_imports=list(graph.model.opset_import), ir_version=graph.model.ir_version
    )


def _info(name: str, array: Array) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def _result(seed: int, how: How) -> dict[str, Any]:
    """What came of one model."""
    started = time.perf_counter()
    result: dict[str, Any] = {"seed": seed, "failure": "", "interpreted": []}
    try:
        graph = NETWORKS[how.networks](seed)
        onnx.checker.check_model(graph.model, full_check=True)
    except Exception:  # a defect of the generator
        return result | {"failure": f"no model: {traceback.format_exc(limit=-2)}"}
    result["operators"] = [node.op_type for node in graph.model.graph.node]
    try:
        found, code = results_of(graph.model, graph.feeds, how)
        result["interpreted"] = [f"{step.op}: {step.reason}" for step in code.interpreted]
        result["calls"] = len(code.calls)
        result["failure"] = "; ".join(differences(graph, found))
    except Exception as error:  # compiler and runtime may raise anything: that is the finding
        result["failure"] = f"{type(error).__name__}: {error}"
    result["seconds"] = round(time.perf_counter() - started, 3)
    if result["failure"]:
        result["model"] = onnx.printer.to_text(minimized(graph, how))
    return result


def run(first: int, count: int, how: How) -> Iterator[dict[str, Any]]:
    """Results of models by seed."""
    arguments = ["--checked"] * how.checked + ["--split"] * how.split + ["--gpu"] * how.gpu
    arguments += ["--networks", how.networks] if how.networks else []
    arguments += ["--level", how.level] if how.level else []
    for result in results_of_children(__file__, arguments, first, count, HANG_S):
        yield {"interpreted": []} | result


def _show(results: Sequence[Mapping[str, Any]]) -> None:
    failed = [result for result in results if result["failure"]]
    for what in ("operators", "interpreted"):
        counts = Counter(item for result in results for item in result.get(what, []))
        print(f"\n{what}, {sum(counts.values())}:")
        for name, number in counts.most_common():
            print(f"  {number:6} {name}")
    seconds = sum(result.get("seconds", 0) for result in results)
    calls = sum(result.get("calls", 0) for result in results)
    whole = sum(not result["interpreted"] for result in results)
    print(
        f"\n{len(results)} models, {whole} without an interpreted node, {calls} kernels, "
        f"{seconds:.0f} s; {len(failed)} fail: {[result['seed'] for result in failed]}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(description="random ONNX models on compiled code")
    parser.add_argument("--count", type=int, default=1000, help="models")
    parser.add_argument("--seed", type=int, default=0, help="of the first model")
    parser.add_argument("--checked", action="store_true", help="check indices at run time")
    parser.add_argument("--level", choices=sorted(LEVELS), default="", help="of the processor")
    parser.add_argument("--split", action="store_true", help="split every kernel among threads")
    parser.add_argument("--gpu", action="store_true", help="on the emulated GPU")
    parser.add_argument("--networks", choices=NETWORKS, default="", help="what is drawn")
    parser.add_argument("--json", type=Path, metavar="F", help="write all results")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.count < 1 or options.seed < 0:
        parser.error("--count must be at least 1, and --seed at least 0")
    how = How(options.checked, options.level, options.split, options.gpu, options.networks)
    if how.gpu and (how.checked or how.level or how.split):
        parser.error("--gpu goes with none of --checked, --level and --split")
    if options.child:
        report(range(options.seed, options.seed + options.count), lambda seed: _result(seed, how))
        return 0
    results = collected(run(options.seed, options.count, how), options.count)
    _show(results)
    return written(results, options.json)


if __name__ == "__main__":
    sys.exit(main())
