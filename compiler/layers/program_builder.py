"""`ProgramBuilder`: schedules become segments, and segments become one linked program.

Every program of the compiler is built here: those of networks (`layer_code` and `launch`) and those
of single operators (`daedal.operator`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from daedal.compiler.codegen.accelerator import emit_segment
from daedal.compiler.codegen.scheduled_function import ScheduledFunction
from daedal.compiler.codegen.segment import Segment, joined
from daedal.compiler.cost.memory import DDR
from daedal.compiler.link import Alias, LinkedCode, LinkedProgram, link, link_code
from daedal.compiler.ops.space import Config
from daedal.compiler.schedule.schedule import Schedule
from daedal.isa.memory_model import MemoryModel
from daedal.isa.program import Program
from daedal.isa.tensor import TensorSpec
from daedal.isa.variant import Variant
from daedal.isa.verifier import verify

__all__ = ["ProgramBuilder"]


@dataclass(frozen=True)
class ProgramBuilder:
    """Builds programs for `variant`: `segment` for each layer in order, then `link` or
    `link_code` for all.

    Parameters
    ----------
    renaming : as in `daedal.compiler.link.link`.
    configs : configurations by the key of their `workload_of`; layers without one have the default.
    memory : behind the machine: what tiles are chosen for.
    """

    variant: Variant
    renaming: bool = True
    configs: Mapping[str, Config] = field(default_factory=dict)
    memory: MemoryModel = DDR

    def segment(self, functions: Sequence[ScheduledFunction], name: str) -> Segment:
        """The code of the layer `name`, whose functions run in sequence.

        Raises ScheduleError as `emit_segment` does.
        """
        parts = [
            emit_segment(item.schedule.func, self.variant, item.tensors, views=item.views)
            for item in functions
        ]
        return joined(parts, name)

    def link_code(
        self,
        segments: Sequence[Segment],
        *,
        constants: Mapping[str, int],
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        aliases: Mapping[str, Alias] | None = None,
        repeats: bool = False,
    ) -> LinkedCode:
        """The program of all layers without its constants, as `link_code`."""
        return link_code(
            segments,
            self.variant,
            constants=constants,
            inputs=inputs,
            outputs=outputs,
            aliases=aliases,
            renaming=self.renaming,
            repeats=repeats,
            memory=self.memory,
        )

    def link(
        self,
        segments: Sequence[Segment],
        *,
        constants: Mapping[str, bytes],
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
    ) -> LinkedProgram:
        """The program of all layers; parameters and errors as those of `link`."""
        return link(
            segments,
            self.variant,
            constants=constants,
            inputs=inputs,
            outputs=outputs,
            renaming=self.renaming,
            memory=self.memory,
        )

    def build(
        self,
        schedule: Schedule,
        *,
        constants: Mapping[str, bytes],
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
    ) -> Program:
        """The program of a single function, verified; tensors are named as its parameters.

        Raises ScheduleError as `segment` and `link` do.
        """
        segment = self.segment([ScheduledFunction(schedule)], schedule.func.name)
        program = self.link([segment], constants=constants, inputs=inputs, outputs=outputs).program
        verify(program)
        return program
