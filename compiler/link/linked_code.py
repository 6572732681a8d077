"""`LinkedCode`: all of a linked program but its constants, and `LinkedProgram`: with them.

The code depends on the sizes of constants, not on their values, so networks that differ in weights
only share it (`daedal.compiler.layers.segment_store`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from daedal.compiler.link.placement.memory_plan import WORKSPACE, MemoryPlan, Place
from daedal.isa.instruction import Instruction
from daedal.isa.program import Program
from daedal.isa.scratchpad import Memory
from daedal.isa.tensor import TensorSpec
from daedal.isa.variant import Variant

__all__ = ["LinkReport", "LinkedCode", "LinkedProgram"]


@dataclass(frozen=True)
class LinkReport:
    """Statistics of linking.

    `num_hazards` counts the conflicting pairs of instructions, each of which would need a token;
    `num_tokens` counts the tokens inserted. `high_water_rows` is the maximum of simultaneously live
    rows, per scratchpad. `workspace_bytes` is the memory for intermediate tensors.
    `workspace_bound_bytes` is the most of it that is live at once, a lower bound for any plan.
    """

    num_instructions: int
    num_tokens: int
    num_hazards: int
    high_water_rows: Mapping[Memory, int]
    region_bytes: tuple[int, int, int, int]
    workspace_bound_bytes: int

    @property
    def workspace_bytes(self) -> int:
        """Size of the region for intermediate tensors."""
        return self.region_bytes[WORKSPACE]


@dataclass(frozen=True)
class LinkedProgram:
    """A program, the places of its tensors, and the report."""

    program: Program
    places: Mapping[str, Place]
    report: LinkReport


@dataclass(frozen=True)
class LinkedCode:
    """What linking finds out.

    Parameters
    ----------
    instructions : of the whole program, FINISH included.
    tables : micro-ops, as constants of the program, by name.
    plan : the places of all tensors.
    setup : the number of leading instructions that load what stays on chip.
    unread : as in `Program`.
    """

    instructions: tuple[Instruction, ...]
    tables: Mapping[str, bytes]
    plan: MemoryPlan
    report: LinkReport
    setup: int = 0
    unread: Mapping[int, int] = field(default_factory=dict)

    def program(
        self,
        variant: Variant,
        constants: Mapping[str, bytes],
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        layers: Sequence[str],
    ) -> LinkedProgram:
        """The program with these `constants`; `layers` are the names of its segments.

        Raises ProgramError as `Program.check_bounds`.
        """
        plan = self.plan
        program = Program(
            variant,
            self.instructions,
            _constant_bytes(plan, {**self.tables, **constants}),
            plan.region_bytes,
            tuple(_placed_spec(spec, plan) for spec in inputs),
            tuple(_placed_spec(spec, plan) for spec in outputs),
            dict(enumerate(layers)),
            self.setup,
            self.unread,
        )
        program.check_bounds()
        return LinkedProgram(program, plan.places, self.report)


def _constant_bytes(plan: MemoryPlan, constants: Mapping[str, bytes]) -> bytes:
    data = bytearray(plan.region_bytes[0])
    for name, content in constants.items():
        place = plan.places[name]
        data[place.offset_bytes : place.end_bytes] = content
    return bytes(data)


def _placed_spec(spec: TensorSpec, plan: MemoryPlan) -> TensorSpec:
    place = plan.places[spec.name]
    return replace(spec, base=place.base, offset_bytes=place.offset_bytes)
