"""The networks of the zoo on compiled code: float networks, and the host's parts of int8 ones.

    python bench/processors/cpu_networks.py [--only NETWORK ...] [--models FOLDER]
        [--variant NAME] [--json F]

First every float network for the target ``cpu``: compile time, kernels, nodes that are interpreted,
the largest difference from onnxruntime relative to the largest output, and both times of a run,
interleaved, the fastest of some: what else the machine does only adds, and waiting for a thread
that is not scheduled adds milliseconds to a run of one. Then the network quantized by
`daedal.quantize` for a variant: what is interpreted in the host's parts, and their time compiled
and interpreted. `--models` adds the ``.onnx`` files below a folder, on ``cpu`` alone. Exit status 1
when a float network differs by over 1e-4, or anything is interpreted.

Of a quantized network every quantized tensor is compared with what onnxruntime computes from our
quantized tensors before it (`bench.correctness.quantized_tensors`): more than one unit in the last
place is a failure. Final outputs are not compared from end to end, as one unit grows on its way
there. An average of 64 integers often lies at a tie of QuantizeLinear (in the int8 ResNet-20s,
exactly so), where the order of a float sum decides; onnxruntime, `onnx.reference` and we round it
differently.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import daedal
from bench.correctness.quantized_tensors import QuantizedDifference, compare_quantized
from bench.json_file import write_json
from bench.zoo.networks import NETWORKS
from bench.zoo.quantized import quantized
from daedal.artifact.artifact import Artifact, HostPart
from daedal.checking.onnxruntime_session import open_session
from daedal.runtime.host import HostModel
from daedal.runtime.host_code import HostProgram, code_to_run

MOST_DIFFERENT = 1e-4
RUNS, MIN_SECONDS = 7, 0.3
"""Runs of each side, and until when both together are repeated if they are short."""

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True)
class FloatRow:
    """A network on the target cpu. Times in seconds; `ratio` is onnxruntime's over ours.

    `difference` is that of a float network; a quantized one has `units`.
    """

    name: str
    compile_seconds: float
    calls: int
    functions: int
    interpreted: list[str]
    difference: float
    units: QuantizedDifference | None
    seconds: float
    onnxruntime_seconds: float

    @property
    def ratio(self) -> float:
        return self.onnxruntime_seconds / self.seconds

    @property
    def missed(self) -> bool:
        """Whether it differs too much, or something is interpreted."""
        differs = self.difference > MOST_DIFFERENT if self.units is None else not self.units.allowed
        return bool(self.interpreted) or differs

    @property
    def difference_text(self) -> str:
        """The cell of the table."""
        if self.units is None:
            return f"{self.difference:.1e}"
        return f"{self.units.num_different} of {self.units.num_elements}, by {self.units.largest}"


@dataclass(frozen=True)
class HostRow:
    """The host's parts of a quantized network: nodes, what is interpreted, seconds of both ways."""

    name: str
    parts: int
    nodes: int
    interpreted: list[str]
    compiled_seconds: float
    interpreted_seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print both tables, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=sorted(NETWORKS), metavar="NETWORK")
    parser.add_argument("--models", type=Path)
    parser.add_argument("--variant", default="vta")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    console = Console()
    chosen = [NETWORKS[name] for name in (options.only or NETWORKS)]
    models = {network.name: network.build().SerializeToString() for network in chosen}
    if options.models is not None:
        for path in sorted(options.models.rglob("*.onnx")):
            models[str(path.relative_to(options.models))] = path.read_bytes()
    floats = []
    for name, model in models.items():
        console.log(f"{name}: cpu")
        floats.append(float_row(name, model))
    hosts = []
    for network in chosen:
        console.log(f"{network.name}: {options.variant}")
        artifact = daedal.compile(quantized(network), options.variant)
        hosts.append(host_row(network.name, artifact))
    console.print(_float_table(floats), _host_table(hosts))
    rows = {"cpu": [asdict(row) for row in floats], "host": [asdict(row) for row in hosts]}
    write_json(options.json, rows)
    wrong = [row.name for row in floats if row.missed]
    wrong += [row.name for row in hosts if row.interpreted]
    for name in wrong:
        console.print(f"missed: {name}")
    return 1 if wrong else 0


def float_row(name: str, model: bytes) -> FloatRow:
    """Compile and run one network beside onnxruntime."""
    began = time.perf_counter()
    artifact = daedal.compile(model, target="cpu")
    seconds = time.perf_counter() - began
    (part,) = artifact.parts
    assert isinstance(part, HostPart)
    (code,) = part.codes
    feeds = model_feeds(onnx.ModelProto.FromString(model))
    program = HostProgram(code)
    proto = onnx.ModelProto.FromString(model)
    session = open_session(proto, fast=True)
    ours, theirs = _interleaved(lambda: program.run(feeds), lambda: session(feeds))
    units = compare_quantized(proto, feeds) if is_quantized(proto) else None
    names = [item.name for item in proto.graph.output]
    wanted = dict(zip(names, session(feeds), strict=True))
    return FloatRow(
        name,
        seconds,
        len(code.calls),
        len({call.symbol for call in code.calls}),
        [f"{step.op}: {step.reason}" for step in code.interpreted],
        0.0 if units else _difference(program.run(feeds), wanted),
        units,
        ours,
        theirs,
    )


def host_row(name: str, artifact: Artifact) -> HostRow:
    """Times of all host parts of an artifact, with zeros as inputs."""
    parts = [part for part in artifact.parts if isinstance(part, HostPart) and part.model]
    compiled = interpreted = 0.0
    reasons: list[str] = []
    for part in parts:
        slow = HostModel(part.model, "a part")
        feeds = slow.zeros()
        code = code_to_run(part.codes)
        if code is None:
            reasons.append("the whole part")
            continue
        fast = HostProgram(code)
        ours, theirs = _interleaved(
            lambda f=fast, x=feeds: f.run(x), lambda s=slow, x=feeds: s.run(x)
        )
        compiled, interpreted = compiled + ours, interpreted + theirs
        reasons += [f"{step.op}: {step.reason}" for step in code.interpreted]
    nodes = sum(len(part.nodes) for part in parts)
    return HostRow(name, len(parts), nodes, reasons, compiled, interpreted)


def is_quantized(model: onnx.ModelProto) -> bool:
    """Whether a model has quantized tensors."""
    return any(node.op_type == "QuantizeLinear" for node in model.graph.node)


def model_feeds(model: onnx.ModelProto) -> Feeds:
    """Seeded inputs: floats around 0, integers from 0 to 7."""
    rng = np.random.default_rng(2)
    given = {item.name for item in model.graph.initializer}
    feeds: Feeds = {}
    for item in model.graph.input:
        if item.name in given:
            continue
        kind = item.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        shape = [dim.dim_value or 1 for dim in kind.shape.dim]
        drawn = rng.integers(0, 8, shape) if dtype.kind in "iu" else rng.normal(size=shape)
        feeds[item.name] = drawn.astype(dtype)
    return feeds


def _interleaved(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of the fastest run of both, run in turn after one run each."""
    times: tuple[list[float], list[float]] = ([], [])
    ours(), theirs()
    while len(times[0]) < RUNS or sum(map(sum, times)) < MIN_SECONDS:
        for run, kept in zip((ours, theirs), times, strict=True):
            began = time.perf_counter()
            run()
            kept.append(time.perf_counter() - began)
    return min(times[0]), min(times[1])


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> float:
    """The largest difference relative to the largest element (at least 1) of its tensor."""
    worst = 0.0
    for name, other in wanted.items():
        one = np.asarray(found[name], np.float64)
        scale = max(1.0, float(np.abs(other).max(initial=0)))
        worst = max(worst, float(np.abs(one - other).max(initial=0)) / scale)
    return worst


def _float_table(rows: Sequence[FloatRow]) -> Table:
    table = Table(title="whole networks on the processor")
    for title in ("network", "compile, s", "calls", "functions", "interpreted", "difference",
                  "ms", "onnxruntime, ms", "times faster"):  # fmt: skip
        table.add_column(title, justify="left" if title == "network" else "right")
    for row in rows:
        table.add_row(
            row.name, f"{row.compile_seconds:.1f}", str(row.calls), str(row.functions),
            str(len(row.interpreted)), row.difference_text, f"{row.seconds * 1e3:.2f}",
            f"{row.onnxruntime_seconds * 1e3:.2f}", f"{row.ratio:.2f}",
        )  # fmt: skip
    return table


def _host_table(rows: Sequence[HostRow]) -> Table:
    table = Table(title="the host's parts of quantized networks")
    for title in ("network", "parts", "nodes", "interpreted", "compiled, ms", "interpreted, ms"):
        table.add_column(title, justify="left" if title == "network" else "right")
    for row in rows:
        table.add_row(
            row.name, str(row.parts), str(row.nodes), str(len(row.interpreted)),
            f"{row.compiled_seconds * 1e3:.3f}", f"{row.interpreted_seconds * 1e3:.3f}",
        )  # fmt: skip
    return table


if __name__ == "__main__":
    sys.exit(main())
