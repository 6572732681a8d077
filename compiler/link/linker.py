"""`link`: joins the segments of all layers into one program with one launch.

The linker is the only part of the compiler that sees several layers. It assigns scratchpad rows and
micro-ops, plans memory, dispatches LOADs early, and inserts dependency tokens and marks, in this
order.
"""

from collections.abc import Mapping, Sequence
from itertools import product

from daedal.compiler.codegen.segment import Segment
from daedal.compiler.link.early_loads import early_loads
from daedal.compiler.link.interleave import Stretch, stretches
from daedal.compiler.link.keep_tables import keep_tables
from daedal.compiler.link.linked_code import LinkedCode, LinkedProgram, LinkReport
from daedal.compiler.link.memory_plan import Alias, plan_memory
from daedal.compiler.link.place import Placement, table_name
from daedal.compiler.link.placed import PlacedInstruction
from daedal.compiler.link.prefetch import prefetch
from daedal.compiler.link.resolve import Resolver
from daedal.compiler.link.tokens import insert_tokens
from daedal.isa.errors import ScheduleError
from daedal.isa.instruction import Instruction
from daedal.isa.program import MAX_INSTRUCTIONS
from daedal.isa.table import Opcode, Unit
from daedal.isa.tensor import TensorSpec
from daedal.isa.tokens import Waits
from daedal.isa.variant import Variant

__all__ = ["link", "link_code"]


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
    sizes = {name: len(data) for name, data in constants.items()}
    code = link_code(
        segments,
        variant,
        constants=sizes,
        inputs=inputs,
        outputs=outputs,
        aliases=aliases,
        renaming=renaming,
    )
    layers = [segment.name for segment in segments]
    return code.program(variant, constants, inputs, outputs, layers)


def link_code(
    segments: Sequence[Segment],
    variant: Variant,
    *,
    constants: Mapping[str, int],
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    aliases: Mapping[str, Alias] | None = None,
    renaming: bool = True,
    prefetches: bool = False,
) -> LinkedCode:
    """All of the program but its constants, which are given by their sizes in bytes.

    With `prefetches`, LOADs move before others that wait (`prefetch`). The other parameters, and
    the ScheduleErrors, are those of `link`.
    """
    count = sum(len(segment.instructions) for segment in segments) + 1
    if count > MAX_INSTRUCTIONS:
        raise ScheduleError(
            f"a program must have at most {MAX_INSTRUCTIONS} instructions, not {count}; compile "
            "parts of the model with --from and --to, or use a larger variant"
        )
    placement, parts, items = _placed(segments, constants, variant, aliases or {}, renaming)
    tables = {table_name(unit): uops.table_bytes() for unit, uops in placement.micro_ops.items()}
    plan = plan_memory(
        [[segments[layer] for layer in part.layers] for part in parts],
        {**{name: len(table) for name, table in tables.items()}, **constants},
        {spec.name: spec.size_bytes for spec in inputs},
        {spec.name: spec.size_bytes for spec in outputs},
        aliases,
    )
    resolved = keep_tables(variant, list(map(Resolver(variant, plan), items)))
    items = early_loads(resolved, variant.units.queue_depth // 2)
    if prefetches:
        items = prefetch(variant, plan.region_bytes, items)
    waits = insert_tokens(variant, plan.region_bytes, items)
    instructions = tuple(_finished(items, waits))
    report = LinkReport(
        num_instructions=len(instructions),
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
    return LinkedCode(instructions, tables, plan, report)


def _placed(
    segments: Sequence[Segment],
    constants: Mapping[str, int],
    variant: Variant,
    aliases: Mapping[str, Alias],
    renaming: bool,
) -> tuple[Placement, list[Stretch], list[PlacedInstruction]]:
    """All instructions with their rows. Layers that begin early, tensors that stay on chip, and two
    layers at once may need more rows than there are; then they are left out, in this order."""
    for resident, early in product((True, False), repeat=2) if renaming else ():
        parts = stretches(segments, constants, variant, aliases, resident=resident, early=early)
        placement = Placement(variant, renaming)
        try:
            return placement, parts, placement.run(parts, segments)
        except ScheduleError:
            continue
    parts = stretches(segments, constants, variant, aliases, interleave=False)
    placement = Placement(variant, renaming)
    return placement, parts, placement.run(parts, segments)


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
    for (instruction, layer, _, _, _), (pop, push), marked in masks:
        values = dict(instruction.values)
        # As in `Instruction.of`, fields of value 0 are left out.
        if pop:
            values["pop"] = pop
        if push:
            values["push"] = push
        if marked:
            values["mark"] = 1
            if layer:
                values["tag"] = layer
        result.append(Instruction(instruction.opcode, values))
    return [*result, Instruction.of(Opcode.FINISH)]
