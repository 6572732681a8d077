"""`link`: joins the segments of all layers into one program with one launch.

The linker is the only part of the compiler that sees several layers. It assigns scratchpad rows and
micro-ops, plans memory, dispatches LOADs early, and inserts dependency tokens and marks, in this
order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from daedal.compiler.codegen.segment import Segment
from daedal.compiler.link.early_loads import early_loads
from daedal.compiler.link.interleave import stretches
from daedal.compiler.link.memory_plan import WORKSPACE, Alias, MemoryPlan, Place, plan_memory
from daedal.compiler.link.place import Placement, table_name
from daedal.compiler.link.placed import PlacedInstruction
from daedal.compiler.link.resolve import Resolver
from daedal.compiler.link.tokens import insert_tokens
from daedal.isa.errors import ScheduleError
from daedal.isa.instruction import Instruction
from daedal.isa.program import MAX_INSTRUCTIONS, Program
from daedal.isa.scratchpad import Memory
from daedal.isa.table import Opcode, Unit
from daedal.isa.tensor import TensorSpec
from daedal.isa.tokens import Waits
from daedal.isa.variant import Variant

__all__ = ["LinkReport", "LinkedProgram", "link"]


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
    num_uop_sequences: int
    uop_table_bytes: int
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


def link(
    segments: Sequence[Segment],
    variant: Variant,
    *,
    constants: Mapping[str, bytes],
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    aliases: Mapping[str, Alias] | None = None,
    renaming: bool = True,
) -> LinkedProgram:
    """Join `segments` into one program.

    Parameters
    ----------
    constants : bytes of every tensor that segments read but never write, except inputs.
    inputs, outputs : the program's inputs and outputs; `base` and `offset_bytes` are set here.
    aliases : the group and the offset of each tensor that shares bytes with others.
    renaming : give every tile its own rows as long as rows are free (ADR 3). Otherwise a buffer has
        the places that its schedule requests with `virtual_thread` and `double_buffer`.

    Raises
    ------
    ScheduleError
        A scratchpad, a micro-op memory or a token counter is too small, or there are too many
        instructions.
    ProgramError
        As `Program.check_bounds`.
    """
    count = sum(len(segment.instructions) for segment in segments) + 1
    if count > MAX_INSTRUCTIONS:
        raise ScheduleError(
            f"a program must have at most {MAX_INSTRUCTIONS} instructions, not {count}; compile "
            "parts of the model with --from and --to, or use a larger variant"
        )
    parts = stretches(segments, constants, variant, aliases, interleave=renaming)
    placement = Placement(variant, renaming)
    try:
        items = placement.run(parts, segments)
    except ScheduleError:
        if len(parts) == len(segments):
            raise
        # Two layers at once may need more rows than one after the other.
        parts = stretches(segments, constants, variant, aliases, interleave=False)
        placement = Placement(variant, renaming)
        items = placement.run(parts, segments)
    tables = {table_name(unit): uops.table_bytes() for unit, uops in placement.micro_ops.items()}
    everything = {**tables, **constants}
    plan = plan_memory(
        [[segments[layer] for layer in part.layers] for part in parts],
        {name: len(data) for name, data in everything.items()},
        {spec.name: spec.size_bytes for spec in inputs},
        {spec.name: spec.size_bytes for spec in outputs},
        aliases,
    )
    resolved = list(map(Resolver(variant, plan), items))
    items = early_loads(resolved, variant.units.queue_depth // 2)
    waits = insert_tokens(variant, plan.region_bytes, items)
    program = Program(
        variant,
        tuple(_finished(items, waits)),
        _constant_bytes(plan, everything),
        plan.region_bytes,
        tuple(_placed_spec(spec, plan) for spec in inputs),
        tuple(_placed_spec(spec, plan) for spec in outputs),
        {number: segment.name for number, segment in enumerate(segments)},
    )
    program.check_bounds()
    report = LinkReport(
        num_instructions=len(program.instructions),
        num_tokens=waits.num_tokens,
        num_hazards=waits.num_hazards,
        num_uop_sequences=sum(uops.num_sequences for uops in placement.micro_ops.values()),
        uop_table_bytes=sum(len(table) for table in tables.values()),
        high_water_rows={
            memory: item.high_water_rows for memory, item in placement.allocators.items()
        },
        region_bytes=plan.region_bytes,
        workspace_bound_bytes=plan.workspace_bound_bytes,
    )
    return LinkedProgram(program, plan.places, report)


def _finished(items: Sequence[PlacedInstruction], waits: Waits) -> list[Instruction]:
    """Add tokens, marks and FINISH.

    A unit's instruction has a mark if the next one of that unit is of another layer.
    """
    marks: list[bool] = []
    following: dict[Unit, int] = {}
    for item in reversed(items):
        marks.append(following.get(item.unit) != item.layer)
        following[item.unit] = item.layer
    result = []
    masks = zip(items, waits.masks(), reversed(marks), strict=True)
    for item, (pop, push), marked in masks:
        tag = item.layer if marked else 0
        added = (("pop", pop), ("push", push), ("mark", int(marked)), ("tag", tag))
        values = dict(item.instruction.values)
        for name, value in added:
            # As in `Instruction.of`, fields of value 0 are left out.
            if value:
                values[name] = value
        result.append(Instruction(item.instruction.opcode, values))
    return [*result, Instruction.of(Opcode.FINISH)]


def _constant_bytes(plan: MemoryPlan, constants: Mapping[str, bytes]) -> bytes:
    data = bytearray(plan.region_bytes[0])
    for name, content in constants.items():
        place = plan.places[name]
        data[place.offset_bytes : place.end_bytes] = content
    return bytes(data)


def _placed_spec(spec: TensorSpec, plan: MemoryPlan) -> TensorSpec:
    place = plan.places[spec.name]
    return replace(spec, base=place.base, offset_bytes=place.offset_bytes)
