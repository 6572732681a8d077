"""Kernels on a GPU of this machine against cuBLAS, cuDNN and PyTorch.

    python bench/processors/gpu_libraries.py [--only NAME ...] [--json F]

Needs PyTorch for GPUs; without it, or without a GPU, it says so, and does nothing. Each case is
an ONNX model, which PyTorch computes one operator after the other
(`bench.processors.torch_models`). Both are graphs that are replayed between two events, in turn;
medians count. PyTorch's networks are no graph: it launches them one operator after the other, as
users run them. What only moves memory is compared with a copy of as many bytes.

Products are of float16 with sums of float32, or of float32 without TF32; maps of convolutions have
their channels last at both ends. A group has the geometric mean of PyTorch's time over ours, and
the least that it is to be. Exit status 1 where a result differs; speeds are only shown.
"""

import argparse
import importlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.json_file import write_json
from bench.networks import conv_layers, depthwise_layers
from bench.processors.cpu_networks import model_feeds
from bench.processors.gpu import REPLAYS, ROUNDS, replayed
from bench.processors.gpu_compile import MODELS
from bench.processors.torch_models import TorchModel, library_timer
from daedal.common.errors import DaedalError
from daedal.compiler.gpu.architectures import best_architecture
from daedal.compiler.gpu.build import build_gpu_code
from daedal.runtime.devices.cuda.device import CudaGpu
from daedal.runtime.gpu_program import GpuProgram

__all__ = ["GROUPS", "Case", "Measured", "cases", "main"]

LEAST: Mapping[str, float] = {
    "products of float16 by groups of warps": 0.65,
    "products of float16 by warps": 0.45,
    "products of float32": 0.75,
    "convolutions of float16": 0.5,
    "depthwise convolutions of float16": 0.9,
    "memory": 0.8,
    "networks": 1.0,
}
"""By group, PyTorch's time over ours; of a copy's time for what only moves memory."""
GROUPS = tuple(LEAST)
SIZE = 4096
"""Rows, columns and terms of products, and rows and columns of what only moves memory."""
MOST_DIFFERENT = {"float16": 5e-3, "float32": 1e-4}


@dataclass(frozen=True)
class Case:
    """A model, and how it is compared.

    Attributes
    ----------
    architecture : that it is compiled for; empty: the best of the GPU.
    is_copy : whether it is compared with a copy of the bytes that it must move.
    is_eager : whether PyTorch launches one operator after the other.
    """

    group: str
    name: str
    build: Callable[[], onnx.ModelProto]
    dtype: str = "float32"
    architecture: str = ""
    channels_last: bool = False
    is_copy: bool = False
    is_eager: bool = False


@dataclass(frozen=True)
class Measured:
    """Medians of seconds; `difference` from PyTorch's results, relative to the largest one."""

    group: str
    name: str
    launches: int
    seconds: float
    library_seconds: float
    difference: float
    most_different: float

    @property
    def share(self) -> float:
        """Of the library's speed."""
        return self.library_seconds / self.seconds


def cases() -> Iterator[Case]:
    """All of them."""
    square = (SIZE, SIZE)
    halves = partial(_model, "MatMul", "float16", square, square)
    for group, architecture in zip(GROUPS, ("sm_90a", "sm_80"), strict=False):
        yield Case(group, f"{SIZE}^3 for {architecture}", halves, "float16", architecture)
    product = partial(_model, "MatMul", "float32", square, square)
    yield Case("products of float32", f"{SIZE}^3", product)
    first = ("C1", 7, 224, (3, 64), 2)
    others = ((x.name, x.kernel, x.size, x.channels, x.stride) for x in conv_layers.LAYERS)
    for name, kernel, size, channels, stride in (first, *others):
        shape = (1, channels[0], size, size), (channels[1], channels[0], kernel, kernel)
        yield _convolution("convolutions of float16", name, *shape, stride)
    for layer in depthwise_layers.LAYERS:
        shape = (1, layer.channels, layer.size, layer.size), (layer.channels, 1, 3, 3)
        yield _convolution("depthwise convolutions of float16", layer.name, *shape, layer.stride)
    moving = {"Relu": (), "Add": (square,), "Sigmoid": (), "Softmax": ()}
    for name, constants in {**moving, "LayerNormalization": ((SIZE,),)}.items():
        build = partial(_model, name, "float32", square, *constants)
        yield Case("memory", name, build, is_copy=True)
    for name in ("resnet50", "vit_mnist"):
        yield Case("networks", name, MODELS[name], is_eager=True)


def _convolution(
    group: str, name: str, maps: Sequence[int], weights: Sequence[int], stride: int
) -> Case:
    """With channels last at both ends: transposes that PyTorch has not."""
    pads, groups = [weights[2] // 2] * 4, maps[1] // weights[1]
    attributes = {"pads": pads, "strides": [stride] * 2, "group": groups}
    build = partial(_model, "Conv", "float16", maps, weights, **attributes)
    return Case(group, name, build, "float16", channels_last=True)


def _model(
    op_type: str, dtype: str, shape: Sequence[int], *constants: Sequence[int], **attributes: Any
) -> onnx.ModelProto:
    """An operator that reads `x` and normal constants."""
    rng = np.random.default_rng(len(shape))
    scale = math.sqrt(1 / math.prod(constants[0][1:])) if op_type == "Conv" else 1.0
    values = [
        numpy_helper.from_array((rng.normal(size=item) * scale).astype(dtype), f"w{number}")
        for number, item in enumerate(constants)
    ]
    node = helper.make_node(op_type, ["x", *(item.name for item in values)], ["y"], **attributes)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [node],
        "case",
        [helper.make_tensor_value_info("x", kind, list(shape))],
        [helper.make_tensor_value_info("y", kind, None)],
        values,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(made, data_prop=True)
    made.graph.output[0].CopyFrom(inferred.graph.output[0])
    return made


def with_channels_last(model: onnx.ModelProto) -> onnx.ModelProto:
    """An operator on maps between transposes."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    (node,) = graph.node
    for item, to_last in ((graph.input[0], False), (graph.output[0], True)):
        dims = [dim.dim_value for dim in item.type.tensor_type.shape.dim]
        for dim, place in zip(item.type.tensor_type.shape.dim, LAST, strict=True):
            dim.dim_value = dims[place]
        ends = [f"{item.name} first", item.name][:: 1 if to_last else -1]
        order = LAST if to_last else FIRST
        transpose = helper.make_node("Transpose", ends[:1], ends[1:], perm=order)
        graph.node.insert(len(graph.node) if to_last else 0, transpose)
    node = graph.node[1]
    node.input[0], node.output[0] = "x first", "y first"
    return made


FIRST, LAST = [0, 3, 1, 2], [0, 2, 3, 1]
"""Where dimensions come from: channels first, and last."""


def measure(case: Case, gpu: CudaGpu, torch: Any, device: str = "cuda") -> Measured:
    """Compare the results of one case, then time both in turn."""
    model = case.build()
    feeds = model_feeds(model)
    own, given = model, feeds
    if case.channels_last:
        own = with_channels_last(model)
        given = {name: np.ascontiguousarray(x.transpose(LAST)) for name, x in feeds.items()}
    architecture = case.architecture or best_architecture(gpu.architectures) or ""
    code = build_gpu_code(own, architectures=[architecture])
    (found,) = GpuProgram(code, gpu).run(given).values()
    library = TorchModel(torch, model, device, channels_last=case.channels_last)
    tensors = {name: library.tensor(value) for name, value in feeds.items()}
    with torch.inference_mode():
        (result,) = library.run(tensors).values()
        wanted = result.float().cpu().numpy()
        if case.channels_last:
            wanted = wanted.transpose(LAST)
        work = partial(library.run, tensors)
        if case.is_copy:
            work = _copy(torch, device, _bytes(model))
        theirs = library_timer(torch, work, REPLAYS, is_graph=not case.is_eager)
        with replayed(code, gpu, given) as ours:
            pairs = [(ours(), theirs()) for _ in range(ROUNDS)]
    difference = np.abs(found.astype(np.float32) - wanted).max() / max(np.abs(wanted).max(), 1e-9)
    seconds, library_seconds = (median(column) for column in zip(*pairs, strict=True))
    return Measured(
        case.group,
        case.name,
        len(code.host.calls),
        seconds,
        library_seconds,
        float(difference),
        MOST_DIFFERENT[case.dtype],
    )


def _bytes(model: onnx.ModelProto) -> int:
    """Of all operands and results."""
    kinds = [item.type.tensor_type for item in (*model.graph.input, *model.graph.output)]
    shapes = [[dim.dim_value for dim in kind.shape.dim] for kind in kinds]
    values = [numpy_helper.to_array(item).nbytes for item in model.graph.initializer]
    return 4 * sum(map(math.prod, shapes)) + sum(values)


def _copy(torch: Any, device: str, size_bytes: int) -> Callable[[], Any]:
    """Reads and writes so many bytes together."""
    source = torch.zeros(size_bytes // 8, dtype=torch.float32, device=device)
    return partial(torch.empty_like(source).copy_, source)


def main(
    arguments: Sequence[str] | None = None,
    opened: Callable[[], CudaGpu] = CudaGpu,
    torch_found: Callable[[], Any] = lambda: importlib.import_module("torch"),
) -> int:
    """Measure and print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", metavar="NAME", help="of groups or cases")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    console = Console()
    try:
        gpu, torch = opened(), torch_found()
    except (DaedalError, ImportError) as error:
        console.print(f"skipped: {error}", markup=False)
        write_json(options.json, {"skipped": str(error)})
        return 0
    if not torch.cuda.is_available():
        reason = "PyTorch is installed without support for this GPU"
        console.print(f"skipped: {reason}", markup=False)
        write_json(options.json, {"skipped": reason})
        return 0
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    rows = []
    for case in cases():
        if options.only and not {case.group, case.name} & set(options.only):
            continue
        if case.architecture and case.architecture not in gpu.architectures:
            continue
        console.log(f"{case.group}: {case.name}")
        rows.append(measure(case, gpu, torch))
    groups = {
        group: geometric_mean(found)
        for group in GROUPS
        if (found := [row.share for row in rows if row.group == group])
    }
    console.print(_table(rows, gpu.name))
    for group, share in groups.items():
        met = "met" if share >= LEAST[group] else "missed"
        console.print(f"{group}: {share:.2f}, at least {LEAST[group]:.2f} is {met}")
    found = {"gpu": gpu.name, "rows": [asdict(row) for row in rows], "groups": groups}
    write_json(options.json, found)
    wrong = [row.name for row in rows if not row.difference <= row.most_different]
    for name in wrong:
        console.print(f"wrong: {name}")
    return 1 if wrong else 0


def _table(rows: Sequence[Measured], name: str) -> Table:
    table = Table(title=name)
    for title in ("case", "launches", "microseconds", "library", "share", "difference"):
        table.add_column(title)
    for row in rows:
        times = (f"{value * 1e6:.1f}" for value in (row.seconds, row.library_seconds))
        figures = f"{row.share:.2f}", f"{row.difference:.1e}"
        table.add_row(row.name, str(row.launches), *times, *figures)
    return table


if __name__ == "__main__":
    sys.exit(main())
