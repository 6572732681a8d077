"""A GPU as a target: what it runs of the processor's nodes, and what that costs.

No figures of a real GPU are known yet (docs/gpu.md), so costs are assumed from data sheets: each
node is a kernel that is launched, and takes as long as its bytes or its products, whichever take
longer, at a share of the rates that the architecture has. Kernels that are fused take less.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from daedal.artifact.gpu_code import EMULATED, SPIRV
from daedal.compiler.cpu.program import STANDARD
from daedal.compiler.cpu.support import COMPILED, EXPANDED, processor_support
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.foreign import FOREIGN
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.graph.passes.partition import Part
from daedal.compiler.graph.same_elements import is_host_view
from daedal.compiler.targets.gpu_peaks import GPU_PEAKS
from daedal.compiler.targets.names import CPU, GPU
from daedal.compiler.targets.products import float_products
from daedal.compiler.targets.target import Target
from daedal.compiler.targets.tools import Tools

__all__ = ["Gpu", "GpuRates", "gpu_rates"]


@dataclass(frozen=True)
class GpuRates:
    """What is assumed of a GPU.

    Attributes
    ----------
    bytes_per_second : between its memory and its processors.
    products_per_second : multiply-accumulates of float32.
    launch_seconds : of a kernel, however little it does.
    crossing_bytes_per_second : between the host's memory and its own.
    crossing_seconds : of a transfer, however small.
    """

    bytes_per_second: float
    products_per_second: float
    launch_seconds: float = 5e-6
    crossing_bytes_per_second: float = 12e9
    crossing_seconds: float = 10e-6


_RATES = {
    **{
        name: GpuRates(peaks.bytes_per_second / 2, peaks.products_per_second["float32"] / 4)
        for name, peaks in GPU_PEAKS.items()
    },
    SPIRV: GpuRates(0.1e12, 0.5e12),
}
"""Half of the bandwidth and a quarter of the products of float32 in data sheets; modules for OpenCL
may run on a GPU inside a processor. A link of 16 lanes of PCIe 3.0 has 12 GB/s in practice."""


def gpu_rates(architectures: Sequence[str]) -> GpuRates | None:
    """Those of the slowest of some architectures. None for the emulator alone, which is asked for
    to see kernels run: it gets all that it can run, whatever it costs."""
    found = [_RATES[name] for name in architectures if not name.startswith(EMULATED)]
    return min(found, key=lambda rates: rates.bytes_per_second, default=None)


class Gpu(Target):
    """Runs kernels, in parts that are cut out of the model as the processor's are.

    Parameters
    ----------
    rates : what is assumed of it; None: everything takes no time.
    """

    name = GPU
    title = "the GPU"

    def __init__(self, rates: GpuRates | None) -> None:
        self.rates = rates

    def lacks(self, graph: Graph, node: Node) -> str:
        """See `Target.lacks`: what it has no kernels for, and what is no node of ONNX."""
        op = get_op(node.op)
        if CPU not in op.targets or op.onnx is None:
            return f"{self.title} has no operator {node.op}"
        if node.op == FOREIGN.name:
            proto = onnx.NodeProto.FromString(node.attrs["proto"])
            kind = str(proto.op_type)
            if proto.domain not in STANDARD or processor_support(kind) not in (COMPILED, EXPANDED):
                return f"{kind} has no code, and is interpreted"
        return ""

    def seconds(self, graph: Graph, node: Node) -> float:
        """See `Target.seconds`."""
        if self.rates is None or is_host_view(node):
            return 0.0
        size = sum(graph.types[name].size_bytes for name in {*node.inputs, *node.outputs})
        products = float_products(graph, node)
        return self.rates.launch_seconds + max(
            size / self.rates.bytes_per_second, products / self.rates.products_per_second
        )

    def crossing_seconds(self, size_bytes: int) -> float:
        """See `Target.crossing_seconds`: of one tensor."""
        if self.rates is None:
            return 0.0
        return self.rates.crossing_seconds + size_bytes / self.rates.crossing_bytes_per_second

    def compile(self, part: Part, tools: Tools) -> None:
        """Nothing yet: `compiler.artifact` cuts the part's nodes out of the model."""
