"""The processor that drives the accelerator as a target."""

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.passes.partition import Part
from daedal.compiler.targets.names import CPU
from daedal.compiler.targets.target import Target
from daedal.compiler.targets.tools import Tools

__all__ = ["Cpu"]

_ELEMENTS_PER_SECOND = 0.2e9
"""As `HostRates` assumes."""


class Cpu(Target):
    """Runs a part as compiled code, or interpreted."""

    name = CPU
    title = "the processor"

    def seconds(self, graph: Graph, node: Node) -> float:
        """See `Target.seconds`: elements of the result, at the rate of compiled host code."""
        return sum(graph.types[name].num_elements for name in node.outputs) / _ELEMENTS_PER_SECOND

    def compile(self, part: Part, tools: Tools) -> None:
        """Nothing yet: `compiler.artifact` cuts the part's nodes out of the model."""
