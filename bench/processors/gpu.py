"""Speed of single operators on a GPU of this machine.

    python bench/processors/gpu.py [--only NAME ...] [--json F]

The models of `bench/processors/cpu_operators.py`, and products of float16: by groups of warps,
where the GPU has them, and by single warps, each beside cuBLAS if PyTorch is installed for the GPU.
Seconds are those of the GPU for one run without copies from and to the host: all launches are
captured as a graph, which is replayed many times between two events; the fastest of several rounds
counts. Without a GPU it says so, and does nothing.
"""

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.json_file import write_json
from bench.processors.cpu_networks import MOST_DIFFERENT, model_feeds
from bench.processors.cpu_operators import Operator, operators
from bench.processors.torch_models import library_timer
from daedal.artifact.gpu_code import GpuCode
from daedal.checking.onnxruntime_session import open_session
from daedal.common.errors import DaedalError
from daedal.compiler.gpu.architectures import best_architecture
from daedal.compiler.gpu.build import build_gpu_code
from daedal.runtime.devices.cuda.device import CudaGpu
from daedal.runtime.gpu_device import kernel_arguments
from daedal.runtime.gpu_program import GpuProgram, architecture_to_run

__all__ = [
    "REPLAYS",
    "ROUNDS",
    "Row",
    "half_products",
    "main",
    "measure",
    "measure_half",
    "replayed",
]

ROUNDS, REPLAYS = 5, 20
HALVES = (1024, 4096)
"""Rows, columns and terms of products of float16."""
MOST_HALVES_DIFFER = 2e-3
"""Relative to the largest result, which is rounded to float16."""


@dataclass(frozen=True)
class Row:
    """What one operator needs, and the largest difference from onnxruntime, relative to the largest
    result; of products of float16, from numpy's of float32.

    Attributes
    ----------
    library_seconds : of cuBLAS for the same; None where it was not measured.
    """

    name: str
    architecture: str
    launches: int
    seconds: float
    operations_per_second: float
    bytes_per_second: float
    difference: float
    most_different: float = MOST_DIFFERENT
    library_seconds: float | None = None

    @property
    def wrong(self) -> bool:
        """Whether it differs by more than rounding."""
        return self.difference > self.most_different

    @property
    def share(self) -> float | None:
        """Of the speed of cuBLAS."""
        return None if self.library_seconds is None else self.library_seconds / self.seconds


def main(arguments: Sequence[str] | None = None, opened: Callable[[], CudaGpu] = CudaGpu) -> int:
    """Measure and print the table; exit status 1 where an operator differs from onnxruntime."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", metavar="NAME")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    console = Console()
    try:
        gpu = opened()
    except DaedalError as error:
        console.print(f"skipped: {error}", markup=False)
        write_json(options.json, {"skipped": str(error)})
        return 0
    architecture = best_architecture(gpu.architectures)
    if architecture is None:
        reason = f"kernels cannot be compiled for {gpu.name} ({gpu.architectures[0]})"
        console.print(f"skipped: {reason}", markup=False)
        write_json(options.json, {"skipped": reason})
        return 0
    rows = []
    for item in operators():
        if not options.only or item.name in options.only:
            console.log(item.name)
            model = onnx.load_from_string(item.model)
            rows.append(measure(item, build_gpu_code(model, architectures=[architecture]), gpu))
    for size in HALVES:
        item = half_products(size)
        if options.only and item.name not in options.only:
            continue
        library = _library_seconds(size)
        for name in dict.fromkeys((architecture, *_OF_WARPS)):
            if name in gpu.architectures:
                console.log(f"{item.name} for {name}")
                model = onnx.load_from_string(item.model)
                code = build_gpu_code(model, architectures=[name])
                rows.append(replace(measure_half(item, code, gpu), library_seconds=library))
    console.print(_table(rows, gpu.name))
    write_json(options.json, {"gpu": gpu.name, "rows": [asdict(row) for row in rows]})
    for row in rows:
        if row.wrong:
            console.print(f"wrong: {row.name}")
    return 1 if any(row.wrong for row in rows) else 0


_OF_WARPS = ("sm_90",)
"""Architectures without products of groups of warps, which a GPU that has these runs, too."""


def half_products(size: int) -> Operator:
    """A product of square matrices of float16."""
    rng = np.random.default_rng(size)
    weights = rng.standard_normal((size, size)).astype(np.float16)
    kind, shape = TensorProto.FLOAT16, (size, size)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, shape)],
        [numpy_helper.from_array(weights, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    name = f"{size}x{size}x{size} of float16"
    return Operator(name, made.SerializeToString(), operations=2 * size**3)


def measure_half(item: Operator, code: GpuCode, gpu: CudaGpu) -> Row:
    """The same as `measure` for `half_products`."""
    model = onnx.load_from_string(item.model)
    (weights,) = (numpy_helper.to_array(value) for value in model.graph.initializer)
    x = np.random.default_rng(1).standard_normal(weights.shape).astype(np.float16)
    wanted = x.astype(np.float32) @ weights.astype(np.float32)
    row = _measured(item, code, gpu, {"x": x}, {"y": wanted})
    return replace(row, most_different=MOST_HALVES_DIFFER)


def _library_seconds(size: int) -> float | None:
    """Of cuBLAS for a product of float16, as PyTorch calls it; None without PyTorch for GPUs."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    x, w = (torch.randn(size, size, dtype=torch.float16, device="cuda") for _ in range(2))
    seconds = library_timer(torch, partial(torch.mm, x, w), REPLAYS)
    return min(seconds() for _ in range(ROUNDS))


def measure(item: Operator, code: GpuCode, gpu: CudaGpu) -> Row:
    """Run an operator and compare it, then time its launches."""
    model = onnx.load_from_string(item.model)
    feeds = model_feeds(model)
    names = [output.name for output in model.graph.output]
    wanted = dict(zip(names, open_session(model, fast=True)(feeds), strict=True))
    return _measured(item, code, gpu, feeds, wanted)


def _measured(
    item: Operator, code: GpuCode, gpu: CudaGpu, feeds: dict[str, Any], wanted: dict[str, Any]
) -> Row:
    found = GpuProgram(code, gpu).run(feeds)
    seconds = _seconds(code, gpu, feeds)
    return Row(
        item.name,
        architecture_to_run(code, gpu) or "",
        len(code.host.calls),
        seconds,
        item.operations / seconds,
        item.bytes / seconds,
        max(_difference(found[name], value) for name, value in wanted.items()),
    )


def _seconds(code: GpuCode, gpu: CudaGpu, feeds: dict[str, Any]) -> float:
    """Of one run of all kernels, in memory of its own."""
    with replayed(code, gpu, feeds) as seconds:
        return min(seconds() for _ in range(ROUNDS))


@contextmanager
def replayed(
    code: GpuCode, gpu: CudaGpu, feeds: Mapping[str, Any]
) -> Iterator[Callable[[], float]]:
    """What gives the seconds of one run of all kernels, as a graph that is replayed many times."""
    host, kernels = code.host, {kernel.symbol: kernel for kernel in code.kernels}
    loaded = gpu.load(code.images[architecture_to_run(code, gpu) or ""], list(kernels))
    base = gpu.allocate(host.memory_bytes)
    try:
        gpu.write(base, host.constant_data())
        for name, value in feeds.items():
            gpu.write(base + host.buffers[host.names[name]].offset, value.tobytes())

        def launches() -> None:
            for call in host.calls:
                kernel = kernels[call.symbol]
                extents = (kernel.grid, kernel.block, kernel.shared_bytes)
                addresses = [base + host.buffers[number].offset for number in call.buffers]
                arguments = kernel_arguments(kernel.maps, addresses, gpu)
                gpu.launch(loaded, call.symbol, *extents, arguments)

        graph = gpu.capture(launches)

        def replays() -> None:
            for _ in range(REPLAYS):
                gpu.replay(graph)

        gpu.seconds(replays)  # The clock rises.
        yield lambda: gpu.seconds(replays) / REPLAYS
    finally:
        gpu.free(base)


def _difference(found: Any, wanted: Any) -> float:
    worst = np.abs(np.asarray(found, np.float64) - np.asarray(wanted, np.float64)).max()
    return float(worst / max(float(np.abs(wanted).max()), 1e-9))


def _table(rows: Sequence[Row], name: str) -> Table:
    table = Table(title=name)
    titles = ("operator", "code", "launches", "microseconds", "TFLOP/s", "GB/s", "difference")
    for title in (*titles, "of cuBLAS"):
        table.add_column(title)
    for row in rows:
        figures = (
            f"{row.seconds * 1e6:.1f}",
            f"{row.operations_per_second / 1e12:.2f}" if row.operations_per_second else "",
            f"{row.bytes_per_second / 1e9:.0f}" if row.bytes_per_second else "",
            f"{row.difference:.1e}",
            "" if row.share is None else f"{row.share:.2f}",
        )
        table.add_row(row.name, row.architecture, str(row.launches), *figures)
    return table


if __name__ == "__main__":
    sys.exit(main())
