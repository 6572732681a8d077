"""Speed of single operators on a GPU of this machine.

    python bench/processors/gpu.py [--only NAME ...] [--json F]

The models of `bench/processors/cpu_operators.py`. Seconds are those of the GPU for one run without
copies from and to the host: all launches are captured as a graph, which is replayed many times
between two events; the fastest of several rounds counts. Without a GPU it says so, and does
nothing.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.processors.cpu_networks import MOST_DIFFERENT, model_feeds
from bench.processors.cpu_operators import Operator, operators
from daedal.artifact.gpu_code import GpuCode
from daedal.common.errors import DaedalError
from daedal.compiler.gpu.architectures import best_architecture
from daedal.compiler.gpu.build import build_gpu_code
from daedal.onnxruntime_session import open_session
from daedal.runtime.devices.cuda.device import CudaGpu
from daedal.runtime.gpu_program import GpuProgram, architecture_to_run

__all__ = ["Row", "main", "measure"]

ROUNDS, REPLAYS = 5, 20


@dataclass(frozen=True)
class Row:
    """What one operator needs, and the largest difference from onnxruntime, relative to the largest
    result."""

    name: str
    architecture: str
    launches: int
    seconds: float
    operations_per_second: float
    bytes_per_second: float
    difference: float

    @property
    def wrong(self) -> bool:
        """Whether it differs by more than rounding."""
        return self.difference > MOST_DIFFERENT


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
        _write(options.json, {"skipped": str(error)})
        return 0
    architecture = best_architecture(gpu.architectures)
    if architecture is None:
        reason = f"kernels cannot be compiled for {gpu.name} ({gpu.architectures[0]})"
        console.print(f"skipped: {reason}", markup=False)
        _write(options.json, {"skipped": reason})
        return 0
    rows = []
    for item in operators():
        if not options.only or item.name in options.only:
            console.log(item.name)
            model = onnx.load_from_string(item.model)
            rows.append(measure(item, build_gpu_code(model, architectures=[architecture]), gpu))
    console.print(_table(rows, gpu.name))
    _write(options.json, {"gpu": gpu.name, "rows": [asdict(row) for row in rows]})
    for row in rows:
        if row.wrong:
            console.print(f"wrong: {row.name}")
    return 1 if any(row.wrong for row in rows) else 0


def measure(item: Operator, code: GpuCode, gpu: CudaGpu) -> Row:
    """Run an operator and compare it, then time its launches."""
    model = onnx.load_from_string(item.model)
    feeds = model_feeds(model)
    found = GpuProgram(code, gpu).run(feeds)
    names = [output.name for output in model.graph.output]
    wanted = dict(zip(names, open_session(model, fast=True)(feeds), strict=True))
    seconds = _seconds(code, gpu, feeds)
    return Row(
        item.name,
        architecture_to_run(code, gpu) or "",
        len(code.host.calls),
        seconds,
        item.operations / seconds,
        item.bytes / seconds,
        max(_difference(found[name], wanted[name]) for name in names),
    )


def _seconds(code: GpuCode, gpu: CudaGpu, feeds: dict[str, Any]) -> float:
    """Of one run of all kernels, in memory of its own."""
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
                gpu.launch(loaded, call.symbol, *extents, addresses)

        graph = gpu.capture(launches)

        def replays() -> None:
            for _ in range(REPLAYS):
                gpu.replay(graph)

        gpu.seconds(replays)  # The clock rises.
        return min(gpu.seconds(replays) for _ in range(ROUNDS)) / REPLAYS
    finally:
        gpu.free(base)


def _difference(found: Any, wanted: Any) -> float:
    worst = np.abs(np.asarray(found, np.float64) - np.asarray(wanted, np.float64)).max()
    return float(worst / max(float(np.abs(wanted).max()), 1e-9))


def _table(rows: Sequence[Row], name: str) -> Table:
    table = Table(title=name)
    for title in ("operator", "code", "launches", "microseconds", "TFLOP/s", "GB/s", "difference"):
        table.add_column(title)
    for row in rows:
        figures = (
            f"{row.seconds * 1e6:.1f}",
            f"{row.operations_per_second / 1e12:.2f}" if row.operations_per_second else "",
            f"{row.bytes_per_second / 1e9:.0f}" if row.bytes_per_second else "",
            f"{row.difference:.1e}",
        )
        table.add_row(row.name, row.architecture, str(row.launches), *figures)
    return table


def _write(path: Path | None, found: dict[str, Any]) -> None:
    if path is not None:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
