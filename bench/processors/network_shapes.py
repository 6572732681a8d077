"""Compile seconds of networks by shape: ``python bench/processors/network_shapes.py``.

The networks of `bench.zoo.shapes` on compiled code, with an empty cache of object code. Each must
agree with onnxruntime within 1e-4 of its largest result, and have no interpreted node. Exit status
1 where one does not.
"""

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.zoo.shapes import SHAPES, NetworkShape
from daedal.checking.onnxruntime_session import open_session
from daedal.compiler.cpu.build import build_host_code
from daedal.native.cache import ObjectCache
from daedal.runtime.host_code import HostProgram

__all__ = ["TOLERANCE", "ShapeRow", "main", "measure"]

TOLERANCE = 1e-4
RUNS = 20


@dataclass(frozen=True)
class ShapeRow:
    """What one network gave; `difference` is relative to the largest element of each result."""

    name: str
    num_nodes: int
    num_kernels: int
    interpreted: tuple[str, ...]
    compile_s: float
    run_ms: float
    difference: float

    @property
    def passed(self) -> bool:
        return not self.interpreted and self.difference <= TOLERANCE


def measure(network: NetworkShape) -> ShapeRow:
    """Compile, run and compare one network."""
    model, feeds = network.build(), network.feeds(0)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        code = build_host_code(model, cache=ObjectCache(Path(folder)))
        program = HostProgram(code)
        compile_s = time.perf_counter() - started
    seconds = []
    for _ in range(RUNS):
        started = time.perf_counter()
        found = program.run(feeds)
        seconds.append(time.perf_counter() - started)
    wanted = open_session(model)(feeds)
    worst = max(
        float(np.abs(one - other).max() / np.abs(other).max())
        for one, other in zip(found.values(), wanted, strict=True)
    )
    return ShapeRow(
        network.name,
        len(model.graph.node),
        len(code.calls),
        tuple(step.op for step in code.interpreted),
        compile_s,
        1e3 * min(seconds),
        worst,
    )


def main() -> int:
    """The command; returns its exit status."""
    print("network       nodes kernels compile s  run ms  difference interpreted")
    passed = True
    for network in SHAPES.values():
        row = measure(network)
        passed = passed and row.passed
        print(
            f"{row.name:14}{row.num_nodes:5}{row.num_kernels:8}{row.compile_s:10.2f}"
            f"{row.run_ms:8.2f}{row.difference:12.1e} {', '.join(row.interpreted) or 'none'}"
        )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
