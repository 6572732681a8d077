"""The variant's machine as a target."""

from daedal.compiler.graph.passes.partition import Part
from daedal.compiler.layers.launch import CompiledLaunch, compile_launch
from daedal.compiler.targets.names import ACCELERATOR
from daedal.compiler.targets.target import Target
from daedal.compiler.targets.tools import Tools

__all__ = ["Accelerator"]


class Accelerator(Target):
    """Runs one program for each part."""

    name = ACCELERATOR
    title = "the accelerator"

    def compile(self, part: Part, tools: Tools) -> CompiledLaunch:
        """See `Target.compile`."""
        return compile_launch(part.graph, tools.builder, tools.code, tools.dump, tools.say)
