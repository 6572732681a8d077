"""What the kernels of networks fetch, copy and multiply, counted on the emulated GPU.

    python bench/processors/gpu_traffic.py [NETWORK ...] [--precision P] [--json F] [--kernels]

Each kernel runs its first blocks, with zeros as operands; all of its accesses of global memory are
kept, and what whole warps request is counted in sectors of 32 bytes. From these follow the sectors
of a request, the share of their bytes that threads asked for, and what a run fetches and stores in
all, if other blocks are like the first ones. Bytes of tensors are those of each operand and each
result of each launch, once. Vectors count as their elements, one after the other.
"""

import argparse
import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.json_file import write_json
from bench.processors.gpu_compile import MODELS
from daedal.artifact.gpu_code import PRECISIONS, GpuKernel
from daedal.artifact.host_code import CodeCall, HostCode
from daedal.compiler.codegen.gpu.emulated import emulated_object
from daedal.compiler.codegen.gpu.kernel_text import KernelText
from daedal.compiler.cpu.importer import import_model
from daedal.compiler.cpu.steps import program_code
from daedal.compiler.frontend.host_model import modern_model
from daedal.compiler.gpu.functions import GpuFunctions
from daedal.compiler.gpu.support import check_gpu_code
from daedal.compiler.ops.graph.factors import SINGLES
from daedal.compiler.ops.graph.maps import UNBROKEN, MapLayout
from daedal.native.cpu import host_cpu
from daedal.sim.gpu.emulator import EmulatedGpu

__all__ = ["KernelRow", "TrafficRow", "main", "measure"]

ARCHITECTURE = "sm_80"
MOST_ACCESSES = 1 << 23
"""Of the first blocks."""
FIRST_BLOCKS = 2
SECTOR_BYTES = 32


@dataclass(frozen=True)
class KernelRow:
    """A kernel.

    Attributes
    ----------
    launches, blocks : of a run, and of a launch.
    requests, sectors, asked_bytes : of all launches and blocks, as the first ones have them.
    worst : most sectors of a request on average, of all places of the kernel.
    ways : the worst bank conflict of shared memory; 1 is none.
    copies : of 16 bytes that are in the text, and `other_copies` of fewer.
    """

    names: tuple[str, ...]
    launches: int
    blocks: int
    requests: float
    sectors: float
    asked_bytes: float
    worst: float
    ways: int
    copies: int
    other_copies: int
    cores: str
    products: int


@dataclass(frozen=True)
class TrafficRow:
    """A network."""

    name: str
    launches: int
    tensor_bytes: int
    kernels: tuple[KernelRow, ...]

    @property
    def sectors_each(self) -> float:
        """Of a request, on average."""
        return sum(k.sectors for k in self.kernels) / sum(k.requests for k in self.kernels)

    @property
    def used(self) -> float:
        """The share of the sectors' bytes that threads asked for."""
        return sum(k.asked_bytes for k in self.kernels) / self.requested_bytes

    @property
    def requested_bytes(self) -> float:
        """Of all sectors of a run."""
        return SECTOR_BYTES * sum(k.sectors for k in self.kernels)

    @property
    def on_cores(self) -> float:
        """The share of the products that tensor cores multiply."""
        total = sum(k.launches * k.products for k in self.kernels)
        return sum(k.launches * k.products for k in self.kernels if k.cores) / max(total, 1)


def measure(
    name: str,
    model: onnx.ModelProto,
    precision: str,
    layout: MapLayout = UNBROKEN,
) -> TrafficRow:
    """Compile a network, and run the first blocks of each kernel."""
    program = import_model(
        model, None, SINGLES, check=check_gpu_code, layout=layout, attentions=True
    )
    half = "" if precision == PRECISIONS[0] else precision
    functions = GpuFunctions((ARCHITECTURE,), checked=True, half=half)
    host = program_code(program, functions)
    calls: dict[str, list[CodeCall]] = {}
    for call in host.calls:
        calls.setdefault(call.symbol, []).append(call)
    known = {item.symbol: item for item in functions.kernels}
    rows = [
        _row(text, known[text.symbol], host, calls[text.symbol])
        for text in functions.texts
        if text.symbol in calls
    ]
    sizes = [
        math.prod(host.buffers[number].shape) * np.dtype(host.buffers[number].dtype).itemsize
        for call in host.calls
        for number in call.buffers
    ]
    return TrafficRow(name, len(host.calls), sum(sizes), tuple(rows))


def _row(
    text: KernelText, kernel: GpuKernel, host: HostCode, calls: Sequence[CodeCall]
) -> KernelRow:
    """Run the first blocks of a kernel on zeros."""
    gpu = EmulatedGpu(num_noted=MOST_ACCESSES, num_requested=MOST_ACCESSES)
    places = []
    for number in calls[0].buffers:
        item = host.buffers[number]
        size = math.prod(item.shape) * np.dtype(item.dtype).itemsize
        places.append(gpu.allocate(size))
        gpu.write(places[-1], bytes(size))
    loaded = gpu.load([emulated_object(text, host_cpu())], [text.symbol])
    grid = (min(text.grid[0], FIRST_BLOCKS), *text.grid[1:])
    gpu.launch(loaded, text.symbol, grid, text.block, text.shared_bytes, places)
    found = gpu.requests()
    blocks = math.prod(text.grid)
    times = len(calls) * blocks / math.prod(grid)
    copies = Counter(re.findall(r"call void @gpu\.copy\(.*, i32 (\d+), ", text.text))
    return KernelRow(
        names=tuple(", ".join(call.computes) for call in calls),
        launches=len(calls),
        blocks=blocks,
        requests=times * sum(item.count for item in found.values()),
        sectors=times * sum(item.sectors for item in found.values()),
        asked_bytes=times * sum(item.size_bytes for item in found.values()),
        worst=max(item.sectors / item.count for item in found.values()),
        ways=max(gpu.conflicts().values(), default=1),
        copies=copies["16"],
        other_copies=copies.total() - copies["16"],
        cores=kernel.cores,
        products=calls[0].products,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Count and print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("networks", nargs="*", default=list(MODELS), metavar="NETWORK")
    parser.add_argument("--precision", choices=PRECISIONS, default=PRECISIONS[0])
    parser.add_argument("--kernels", action="store_true", help="print each kernel, too")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.networks) - set(MODELS))
    if unknown:
        parser.error(f"networks must be some of {', '.join(MODELS)}, not {', '.join(unknown)}")
    console, rows = Console(), list[TrafficRow]()
    for name in options.networks:
        console.log(name)
        try:
            model = MODELS[name]()
        except FileNotFoundError as error:
            console.print(f"{name} is left out: {error.filename} is missing", markup=False)
            continue
        rows.append(measure(name, modern_model(model), options.precision))
        if options.kernels:
            for kernel in rows[-1].kernels:
                console.print(kernel, markup=False)
    console.print(_table(rows, options.precision))
    found = [asdict(row) for row in rows]
    write_json(options.json, found)
    return 0


def _table(rows: Sequence[TrafficRow], precision: str) -> Table:
    table = Table(title=f"Global memory, {precision}")
    titles = ("network", "launches", "tensors MB", "requested MB", "used", "sectors", "conflicts")
    for title in (*titles, "on cores"):
        table.add_column(title)
    for row in rows:
        table.add_row(
            row.name,
            str(row.launches),
            f"{row.tensor_bytes / 1e6:.1f}",
            f"{row.requested_bytes / 1e6:.1f}",
            f"{row.used:.2f}",
            f"{row.sectors_each:.1f}",
            f"{max(kernel.ways for kernel in row.kernels)}",
            f"{row.on_cores:.2f}",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
