"""Speed of our processor code against onnxruntime and OpenVINO.

    python bench/processors/cpu.py [--only NAME ...] [--threads N ...] [--models FOLDER]
        [--level LEVEL] [--json F]

Every network of the zoo and MiniLM-L6 (random weights) as floats and quantized by
`daedal.quantize`, matrix products, and with `--models` the ``.onnx`` files below a folder: ours,
onnxruntime with all its optimizations, and OpenVINO where it is installed, in one process, in turn,
each with as many threads. A row has the fastest run of each and the median; `ratio` is the faster
library's fastest run over ours. Where a network is there as floats and as int8, our runs of both
are compared, too; so are our runs by several threads and by one, in turn. The largest difference of
an output from onnxruntime's is shown relative to the largest output: of quantized models it says
little, as both round (`bench/processors/cpu_networks.py` compares each of their tensors).

`--level x86-64-v3` measures what a processor without AVX-512 would: our code is for this level, and
OpenVINO keeps to its instructions, too, but for dense layers of floats, whose library asks the
processor itself. onnxruntime cannot, so it gives results alone.

Exit status 1 where a float model differs by more than 1e-4.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import daedal
from bench.json_file import write_json
from bench.networks.minilm import TOKENS, WORDS, minilm_of_random_weights
from bench.processors.cpu_networks import MOST_DIFFERENT, is_quantized, model_feeds
from bench.zoo.networks import NETWORKS
from bench.zoo.quantized import quantized
from daedal.artifact.artifact import HostPart
from daedal.checking.onnxruntime_session import open_for_speed
from daedal.runtime.host_code import HostProgram

RUNS, MIN_SECONDS = 50, 0.3
"""Of each side, and until when all together are repeated if they are short."""
PAUSE_SECONDS = 0.02
"""Between runs of different sides with several threads: those of a library wait in a loop for
another run, on cores that the next side needs, and sleep after a while."""

PRODUCTS = (
    *((size, size, size) for size in (512, 1024, 509)),
    (197, 768, 768),
    (197, 768, 3072),
    (1, 4096, 4096),
)
"""Rows, depth and columns."""

ISA = {
    "x86-64-v3": "AVX2",
    "x86-64-v3-vnni": "AVX2_VNNI",
    "x86-64-v4": "AVX512_CORE",
    "x86-64-v4-vnni": "AVX512_CORE_VNNI",
}
"""What oneDNN, which OpenVINO is built on, calls our levels."""

Feeds = Mapping[str, np.ndarray]
ALONE = "daedal, 1 thread"
"""Our code on one thread, measured in the same turns as on several."""

Runner = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """A model; seconds by who ran it, the fastest and the median."""

    name: str
    quantized: bool
    threads: int
    compile_seconds: float
    calls: int
    interpreted: list[str]
    difference: float
    fastest: dict[str, float]
    median: dict[str, float]

    @property
    def ratio(self) -> float:
        """The faster library's time over ours."""
        others = [value for who, value in self.fastest.items() if who not in ("daedal", ALONE)]
        return min(others, default=float("nan")) / self.fastest["daedal"]

    @property
    def over_one(self) -> float | None:
        """Our time by one thread over that by several; None for a run by one."""
        return self.fastest[ALONE] / self.fastest["daedal"] if ALONE in self.fastest else None

    @property
    def wrong(self) -> bool:
        """Whether a float model differs too much."""
        return not self.quantized and self.difference > MOST_DIFFERENT


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", metavar="NAME")
    parser.add_argument("--threads", nargs="*", type=int, default=[1])
    parser.add_argument("--models", type=Path)
    parser.add_argument("--level", choices=ISA)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    console = Console()
    if options.level is not None:  # before OpenVINO is imported
        os.environ["ONEDNN_MAX_CPU_ISA"] = ISA[options.level]
    rows: list[Row] = []
    for name, model, feeds in _models(options.models, options.only):
        for threads in options.threads:
            console.log(f"{name}, {threads} threads")
            rows.append(measure(name, model, threads, feeds, options.level))
    console.print(_table(rows))
    for kind in (False, True):
        ratios = [row.ratio for row in rows if row.quantized == kind]
        if ratios:
            mean = float(np.exp(np.mean(np.log(ratios))))
            console.print(f"{'quantized' if kind else 'float'}: geometric mean {mean:.2f}")
    for name, ratio in over_floats(rows).items():
        console.print(f"{name}: int8 is {ratio:.2f} times as fast as float")
    for row in rows:
        if row.over_one is not None:
            times = f"{row.over_one:.2f} times as fast as one"
            console.print(f"{row.name}: {row.threads} threads are {times}")
    found = [{**asdict(row), "ratio": row.ratio, "over_one": row.over_one} for row in rows]
    write_json(options.json, found)
    wrong = [row.name for row in rows if row.wrong]
    for name in wrong:
        console.print(f"wrong: {name}")
    return 1 if wrong else 0


def over_floats(rows: Sequence[Row]) -> dict[str, float]:
    """Our fastest run of a float network over that of its int8 form, by name and threads: networks
    of the zoo, and files whose names end in ``_qdq``."""
    ours = {(row.name, row.threads): row.fastest["daedal"] for row in rows}
    found = {}
    for (name, threads), seconds in ours.items():
        for form in (name.replace(".onnx", "_qdq.onnx"), f"{name}, int8"):
            quantized_seconds = ours.get((form, threads))
            if form != name and quantized_seconds is not None:
                found[f"{name}, {threads} threads"] = seconds / quantized_seconds
    return found


def measure(
    name: str, model: bytes, threads: int, feeds: Feeds | None = None, level: str | None = None
) -> Row:
    """Compile one model, and run it and the libraries in turn; with a level of processors, those
    libraries that keep to it. Without `feeds`, seeded inputs."""
    began = time.perf_counter()
    artifact = daedal.compile(model, target="cpu", cpu_levels=level and [level])
    seconds = time.perf_counter() - began
    (part,) = artifact.parts
    assert isinstance(part, HostPart)
    (code,) = part.codes
    proto = onnx.ModelProto.FromString(model)
    feeds = model_feeds(proto) if feeds is None else feeds
    program = HostProgram(code, threads)
    runners: dict[str, Runner] = {"daedal": lambda: program.run(feeds)}
    if threads > 1:
        alone = HostProgram(code, 1)
        runners[ALONE] = lambda: alone.run(feeds)
    runners |= {
        who: made
        for who, made in (
            ("onnxruntime", _onnxruntime(model, feeds, threads)),
            ("openvino", _openvino(model, feeds, threads)),
        )
        if made is not None
    }
    names = [item.name for item in proto.graph.output]
    wanted = dict(zip(names, runners["onnxruntime"](), strict=True))
    found = program.run(feeds)
    if level is not None:
        del runners["onnxruntime"]
    fastest, median = _timed(runners, PAUSE_SECONDS if threads > 1 else 0.0)
    return Row(
        name,
        is_quantized(proto),
        threads,
        seconds,
        len(code.calls),
        [f"{step.op}: {step.reason}" for step in code.interpreted],
        max(_difference(found[item], wanted[item]) for item in names),
        fastest,
        median,
    )


def _models(
    folder: Path | None, only: Sequence[str] | None
) -> Iterator[tuple[str, bytes, Feeds | None]]:
    """Names, models and inputs (None: any), those in `only` or all."""
    for rows, depth, columns in PRODUCTS:
        name = f"{rows}x{depth}x{columns}"
        if not only or name in only:
            yield name, _product(rows, depth, columns), None
    for network in NETWORKS.values():
        if not only or network.name in only:
            yield network.name, network.build().SerializeToString(), None
            yield f"{network.name}, int8", _bytes(quantized(network)), None
    if not only or "minilm" in only:
        yield from _minilm()
    if folder is not None:
        for path in sorted(folder.rglob("*.onnx")):
            yield str(path.relative_to(folder)), path.read_bytes(), None


def _minilm() -> Iterator[tuple[str, bytes, Feeds]]:
    """MiniLM-L6 as floats and as int8, calibrated with two inputs; random tokens, all of which
    count."""
    rng = np.random.default_rng(0)
    model = _bytes(minilm_of_random_weights(rng))
    tokens = rng.integers(0, WORDS, (3, TOKENS))
    mask = np.ones((2, TOKENS), np.float32)
    feeds: dict[str, np.ndarray] = {"input_ids": tokens[2:], "attention_mask": mask[1:]}
    yield "minilm", model, feeds
    samples: dict[str, np.ndarray] = {"input_ids": tokens[:2], "attention_mask": mask}
    yield "minilm, int8", daedal.quantize(model, samples), feeds


def _bytes(model: bytes | onnx.ModelProto) -> bytes:
    return model if isinstance(model, bytes) else model.SerializeToString()


def _product(rows: int, depth: int, columns: int) -> bytes:
    """A matrix times constant weights, and a bias."""
    rng = np.random.default_rng(rows)
    weights = rng.normal(size=(depth, columns)).astype(np.float32)
    bias = rng.normal(size=columns).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t"]),
        helper.make_node("Add", ["t", "b"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [rows, depth])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [rows, columns])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    opset = helper.make_opsetid("", 21)
    return bytes(helper.make_model(graph, opset_imports=[opset], ir_version=10).SerializeToString())


def _onnxruntime(model: bytes, feeds: Feeds, threads: int) -> Runner:
    run = open_for_speed(model, threads)
    return lambda: run(feeds)


def _openvino(model: bytes, feeds: Feeds, threads: int) -> Runner | None:
    """None where it is not installed, or cannot run the model. It computes in float32: left to
    itself, it takes bfloat16 where a processor has products of them, whose results differ by more
    than `MOST_DIFFERENT`."""
    try:
        import openvino
    except ImportError:
        return None
    core = openvino.Core()
    try:
        read = core.read_model(model=model)
        read.reshape({name: list(array.shape) for name, array in feeds.items()})
        compiled = core.compile_model(
            read,
            "CPU",
            {
                "INFERENCE_NUM_THREADS": threads,
                "INFERENCE_PRECISION_HINT": "f32",
                "PERFORMANCE_HINT": "LATENCY",
            },
        )
        request = compiled.create_infer_request()
        request.infer(dict(feeds))
    except RuntimeError:
        return None
    return lambda: request.infer(dict(feeds))


def _timed(
    runners: Mapping[str, Runner], pause: float
) -> tuple[dict[str, float], dict[str, float]]:
    """The fastest run and the median of each, in turn, `pause` seconds apart; each runs once before
    it is timed. The order changes, so nobody always follows the threads of the same library."""
    seconds: dict[str, list[float]] = {who: [] for who in runners}
    order, random = list(runners.items()), Random(0)
    began = time.perf_counter()
    while len(seconds["daedal"]) < RUNS or time.perf_counter() - began < MIN_SECONDS:
        random.shuffle(order)
        for who, run in order:
            time.sleep(pause)
            run()
            start = time.perf_counter()
            run()
            seconds[who].append(time.perf_counter() - start)
    return (
        {who: min(values) for who, values in seconds.items()},
        {who: float(np.median(values)) for who, values in seconds.items()},
    )


def _difference(found: np.ndarray, wanted: np.ndarray) -> float:
    worst = np.abs(np.asarray(found, np.float64) - np.asarray(wanted, np.float64)).max()
    return float(worst / max(float(np.abs(wanted).max()), 1e-9))


def _table(rows: Sequence[Row]) -> Table:
    table = Table(title="milliseconds: the fastest run (the median)")
    everyone = list(dict.fromkeys(who for row in rows for who in row.fastest))
    for title in ("model", "threads", *everyone, "ratio", "compile s", "calls", "difference"):
        table.add_column(title, justify="left" if title == "model" else "right")
    for row in rows:
        times = (
            f"{row.fastest[who] * 1e3:.2f} ({row.median[who] * 1e3:.2f})"
            if who in row.fastest
            else "-"
            for who in everyone
        )
        table.add_row(
            row.name,
            str(row.threads),
            *times,
            f"{row.ratio:.2f}",
            f"{row.compile_seconds:.1f}",
            f"{row.calls}" + (f", {len(row.interpreted)} interpreted" if row.interpreted else ""),
            f"{row.difference:.1e}",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
