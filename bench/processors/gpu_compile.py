"""Seconds to compile the kernels of networks for a GPU; no GPU is needed.

    python bench/processors/gpu_compile.py [NETWORK ...] [--architecture sm_80] [--json F]

Each network is compiled to PTX with an empty cache, then again with what the first time kept, and
once more with machine code besides, where ptxas is installed. Seconds are the processor's, those of
ptxas with them: those of one core that does nothing else. Exit status 1 where a network takes more
than half a second a kernel on average, the first time with ptxas.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.json_file import write_json
from bench.zoo.networks import NETWORKS
from daedal.compiler.codegen.gpu.ptxas import find_ptxas
from daedal.compiler.frontend.host_model import modern_model
from daedal.compiler.gpu.build import build_gpu_code
from daedal.native.cache import ObjectCache

__all__ = ["MODELS", "MOST_SECONDS", "CompileRow", "main", "measure"]

SEED = 0
MOST_SECONDS = 0.5
"""Of a kernel, on average."""
SHARED = Path(__file__).resolve().parents[3] / "shared" / "models"


def _of_the_zoo(name: str) -> Callable[[], onnx.ModelProto]:
    """Its statistics do not matter here."""
    return lambda: NETWORKS[name].structure(np.random.default_rng(SEED))


def _of_a_file(*parts: str) -> Callable[[], onnx.ModelProto]:
    return lambda: onnx.load(SHARED.joinpath(*parts))


MODELS = {
    "resnet50": _of_the_zoo("resnet50"),
    "mobilenet_v1": _of_the_zoo("mobilenet_v1"),
    "squeezenet": _of_the_zoo("squeezenet"),
    "vit_mnist": _of_a_file("vit_mnist", "model.onnx"),
    "stories260k": _of_a_file("stories260k", "decode.onnx"),
}
"""By name; the last two are shared test data."""


@dataclass(frozen=True)
class CompileRow:
    """A network.

    Attributes
    ----------
    kernels : each once.
    launches : of a run.
    on_processor : names of what GPUs have no code for, and why.
    seconds : to PTX, with an empty cache.
    again_seconds : the same with what was kept.
    ptxas_seconds : from PTX to machine code; None without ptxas.
    """

    name: str
    kernels: int
    launches: int
    on_processor: tuple[str, ...]
    seconds: float
    again_seconds: float
    ptxas_seconds: float | None

    @property
    def kernel_seconds(self) -> float:
        """Of a kernel, on average."""
        return (self.seconds + (self.ptxas_seconds or 0)) / max(self.kernels, 1)

    @property
    def passed(self) -> bool:
        return self.kernel_seconds <= MOST_SECONDS


def measure(name: str, model: onnx.ModelProto, architecture: str) -> CompileRow:
    """Compile one network, in the opset that users' models are brought to, three times."""
    modern = modern_model(model)
    with tempfile.TemporaryDirectory() as folder:
        cache = ObjectCache(Path(folder))

        def compiled(*, cubins: bool = False) -> float:
            began = _processor_seconds()
            build_gpu_code(modern, architectures=[architecture], cache=cache, cubins=cubins)
            return _processor_seconds() - began

        seconds, again = compiled(), compiled()
        ptxas = compiled(cubins=True) - again if find_ptxas() is not None else None
        code = build_gpu_code(modern, architectures=[architecture], cache=cache)
    left = (f"{', '.join(item.names)}: {item.reason}" for item in code.on_processor)
    launches = len(code.host.calls)
    return CompileRow(name, len(code.kernels), launches, tuple(left), seconds, again, ptxas)


def _processor_seconds() -> float:
    """Of this process and of those that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("networks", nargs="*", default=list(MODELS), metavar="NETWORK")
    parser.add_argument("--architecture", default="sm_80")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.networks) - set(MODELS))
    if unknown:
        parser.error(f"networks must be some of {', '.join(MODELS)}, not {', '.join(unknown)}")
    console, rows, left_out = Console(), list[CompileRow](), list[str]()
    for name in options.networks:
        console.log(name)
        try:
            model = MODELS[name]()
        except FileNotFoundError as error:
            left_out.append(f"{name} is left out: {error.filename} is missing")
            continue
        rows.append(measure(name, model, options.architecture))
    console.print(_table(rows, options.architecture))
    notes = (f"{row.name}, by the processor: {item}" for row in rows for item in row.on_processor)
    for line in (*left_out, *notes):
        console.print(line, markup=False)
    found = {"rows": [asdict(row) for row in rows], "left_out": left_out}
    write_json(options.json, found)
    return 0 if all(row.passed for row in rows) else 1


def _table(rows: Sequence[CompileRow], architecture: str) -> Table:
    table = Table(title=f"Compiling for {architecture}")
    titles = ("network", "kernels", "launches", "to PTX s", "again s", "ptxas s", "a kernel s")
    for title in titles:
        table.add_column(title)
    for row in rows:
        table.add_row(
            row.name,
            str(row.kernels),
            str(row.launches),
            f"{row.seconds:.2f}",
            f"{row.again_seconds:.2f}",
            "" if row.ptxas_seconds is None else f"{row.ptxas_seconds:.2f}",
            f"{row.kernel_seconds:.3f}",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
