"""`ProgramBuilder`: what all programs of a compilation have in common.

Schedules become segments here, for networks (`layer_code`) and single operators
(`daedal.operator`); `launch` links those of a network.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from daedal.compiler.codegen.accelerator import emit_segment
from daedal.compiler.codegen.scheduled_function import ScheduledFunction
from daedal.compiler.codegen.segment import Segment, joined
from daedal.compiler.cost.memory import DDR
from daedal.compiler.link import link
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
    """Builds segments of layers, and programs of single operators, for `variant`.

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
        linked = link(
            [segment],
            self.variant,
            constants=constants,
            inputs=inputs,
            outputs=outputs,
            renaming=self.renaming,
            memory=self.memory,
        )
        verify(linked.program)
        return linked.program
