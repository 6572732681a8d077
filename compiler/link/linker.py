"""`link`: joins the segments of all layers into one program with one launch.

The linker is the only part of the compiler that sees several layers. It assigns scratchpad rows and
micro-ops, plans memory, dispatches LOADs early, and inserts dependency tokens and marks, in this
order.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.segment import Segment
from daedal.compiler.cost.memory import DDR
from daedal.compiler.link.linked_code import LinkedCode, LinkedProgram, LinkReport
from daedal.compiler.link.on_chip.keep_tables import keep_tables
from daedal.compiler.link.on_chip.kept_between_launches import (
    PARAMETER_SHARES,
    keep_between_launches,
    rows_to_keep,
)
from daedal.compiler.link.on_chip.kept_constants import keep_constants
from daedal.compiler.link.on_chip.unread_stores import unread_stores
from daedal.compiler.link.ordering.early_loads import early_loads
from daedal.compiler.link.ordering.feed_units import feed_units
from daedal.compiler.link.ordering.interleave import Stretch, stretches
from daedal.compiler.link.ordering.prefetch import prefetch
from daedal.compiler.link.placement.lifetimes import lifetimes
from daedal.compiler.link.placement.memory_plan import Alias, MemoryPlan, plan_memory
from daedal.compiler.link.placement.place import Misfit, Placement, table_name
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.compiler.link.placement.placed_program import PlacedProgram
from daedal.compiler.link.placement.resolve import Resolver
from daedal.compiler.link.placement.tokens import insert_tokens
from daedal.isa.instruction import Instruction
from daedal.isa.memory_model import MemoryModel
from daedal.isa.program import MAX_INSTRUCTIONS
from daedal.isa.scratchpad import Memory
from daedal.isa.table import Opcode, Unit
from daedal.isa.tensor import TensorSpec
from daedal.isa.tokens import Waits
from daedal.isa.variant import Variant

__all__ = ["link", "link_code"]

KEPT_SHARES = (15 / 16, 29 / 32, 7 / 8, 3 / 4, 1 / 2, 1 / 4)
"""Shares of the rows that `rows_to_keep` allows, which constants keep between launches: the first
one that leaves enough for what is not kept."""


def link(
    segments: Sequence[Segment],
    variant: Variant,
    *,
    constants: Mapping[str, bytes],
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    aliases: Mapping[str, Alias] | None = None,
    renaming: bool = True,
    memory: MemoryModel = DDR,
) -> LinkedProgram:
    """Join `segments` into one program.

    Parameters
    ----------
    constants : bytes of every tensor that segments read but never write, except inputs.
    inputs, outputs : the program's inputs and outputs; `base` and `offset_bytes` are set here.
    aliases : the group and the offset of each tensor that shares bytes with others.
    renaming : give every tile its own rows as long as rows are free (ADR 3). Otherwise a buffer has
        the places that its schedule requests with `virtual_thread` and `double_buffer`.
    memory : behind the machine: what the order of instructions is chosen for.

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
        memory=memory,
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
    repeats: bool = False,
    memory: MemoryModel = DDR,
) -> LinkedCode:
    """All of the program but its constants, which are given by their sizes in bytes.

    With `repeats`, it is launched again and again: constants stay on chip
    (`keep_between_launches`), with that of `PARAMETER_SHARES` which gives the fewest estimated
    cycles, and all LOADs may move before others that wait (`prefetch`), not only those of constants
    (`fill_gaps`). The other parameters, and the ScheduleErrors, are those of `link`.
    """
    count = sum(len(segment.instructions) for segment in segments) + 1
    if count > MAX_INSTRUCTIONS:
        raise ScheduleError(
            f"a program must have at most {MAX_INSTRUCTIONS} instructions, not {count}; compile "
            "parts of the model with --from and --to, or use a larger variant"
        )
    kept = _unwritten([spec.name for spec in inputs], segments, aliases or {}) if repeats else None
    find = partial(
        _arranged,
        segments,
        variant,
        constants=constants,
        inputs=inputs,
        outputs=outputs,
        aliases=aliases or {},
        renaming=renaming,
        kept=kept,
        memory=memory,
    )
    found = min(map(find, PARAMETER_SHARES), key=_estimate) if repeats else find(0)
    placed, plan, tables, resolve, program, _ = found
    placement = placed.placement
    setup = list(map(resolve, placed.setup))
    program = PlacedProgram.of(variant, plan.observed_bytes, setup).joined(program)
    waits = insert_tokens(program)
    planes = {
        number: program.items[number].instruction.blocks
        for number in np.flatnonzero(program.unread).tolist()
    }
    instructions = tuple(_finished(program.items, len(setup), waits, planes))
    report = LinkReport(
        num_instructions=len(instructions),
        num_tokens=waits.num_tokens,
        num_hazards=waits.num_hazards,
        high_water_rows={
            memory: item.high_water_rows for memory, item in placement.allocators.items()
        },
        region_bytes=plan.region_bytes,
        workspace_bound_bytes=plan.workspace_bound_bytes,
    )
    return LinkedCode(instructions, tables, plan, report, len(setup), planes)


class _Arranged(NamedTuple):
    """A program before tokens, with its memory; `cycles` are estimated where it repeats."""

    placed: "_Placed"
    plan: MemoryPlan
    tables: Mapping[str, bytes]
    resolve: Resolver
    program: PlacedProgram
    cycles: int


def _estimate(found: _Arranged) -> int:
    return found.cycles


def _arranged(
    segments: Sequence[Segment],
    variant: Variant,
    parameters: float,
    *,
    constants: Mapping[str, int],
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    aliases: Mapping[str, Alias],
    renaming: bool,
    kept: Collection[str] | None,
    memory: MemoryModel,
) -> _Arranged:
    """Rows, memory, and the order of instructions. Constants that stay on chip between launches
    take at most the part `parameters` of PAR; `kept` is that of `_placed`."""
    placed = _placed(segments, constants, variant, aliases, renaming, kept, memory, parameters)
    placement = placed.placement
    tables = {table_name(unit): uops.table_bytes() for unit, uops in placement.micro_ops.items()}
    plan = plan_memory(
        lifetimes([*placed.setup, *placed.items]),
        _sizes(segments),
        {**{name: len(table) for name, table in tables.items()}, **constants},
        {spec.name: spec.size_bytes for spec in inputs},
        {spec.name: spec.size_bytes for spec in outputs},
        aliases,
    )
    resolve = Resolver(variant, plan)
    items = keep_tables(variant, list(map(resolve, placed.items)))
    items = early_loads(items, variant.units.queue_depth // 2)
    gone = unread_stores(items, aliases, [spec.name for spec in outputs])
    program = PlacedProgram.of(variant, plan.observed_bytes, items, gone)
    if kept is None:
        return _Arranged(placed, plan, tables, resolve, feed_units(program, memory), 0)
    return _Arranged(placed, plan, tables, resolve, *prefetch(program, memory))


def _unwritten(
    names: Iterable[str], segments: Iterable[Segment], aliases: Mapping[str, Alias]
) -> frozenset[str]:
    """Those of `names` that no layer writes, and that share no bytes with what one writes."""
    stored = {name for segment in segments for name in segment.writes}
    groups = {aliases[name].group for name in stored if name in aliases} | stored
    return frozenset(x for x in names if x not in groups and x not in aliases)


def _sizes(segments: Sequence[Segment]) -> dict[str, int]:
    """Of all tensors, in bytes."""
    sizes: dict[str, int] = {}
    for segment in segments:
        for name, size in segment.tensors.items():
            known = sizes.setdefault(name, size)
            assert known == size, f"{name!r} has {known} bytes here and {size} there"
    return sizes


class _Placed(NamedTuple):
    """All instructions with their rows: those of `setup`, then `items`."""

    placement: Placement
    parts: Sequence[Stretch]
    setup: Sequence[PlacedInstruction]
    items: Sequence[PlacedInstruction]


def _placed(
    segments: Sequence[Segment],
    constants: Mapping[str, int],
    variant: Variant,
    aliases: Mapping[str, Alias],
    renaming: bool,
    kept: Collection[str] | None,
    memory: MemoryModel,
    parameters: float,
) -> _Placed:
    """All instructions with their rows. If the program is launched again and again, `kept` are the
    inputs that may stay on chip during a launch; otherwise it is None.

    Weights that stay on chip, a chain of layers, layers that begin early, tensors that stay on
    chip, and two layers at once may need more rows than there are; then they are left out, in this
    order."""
    shares = (0.0,) if kept is None else (*KEPT_SHARES, 0.0)
    for resident, results, early in product((True, False), repeat=3) if renaming else ():
        apart: set[int] = set()
        misfit: Misfit | None = None
        while misfit is None or misfit.stretch.is_chain:
            if misfit is not None:
                apart.add(misfit.stretch.layers[0])
            parts = stretches(
                segments,
                constants,
                variant,
                aliases,
                resident=resident,
                results=results,
                early=early,
                apart=apart,
                memory=memory,
            )
            for share in shares:
                try:
                    rows = rows_to_keep(variant, share, parameters)
                    return _with_constants(
                        parts, segments, constants, variant, rows, memory, kept or ()
                    )
                except Misfit as error:
                    misfit = error
    parts = stretches(segments, constants, variant, aliases, interleave=False)
    placement = Placement(variant, renaming, memory)
    return _Placed(placement, parts, (), placement.run(parts, segments))


def _with_constants(
    parts: Sequence[Stretch],
    segments: Sequence[Segment],
    constants: Collection[str],
    variant: Variant,
    rows: Mapping[Memory, int],
    memory: MemoryModel,
    inputs: Collection[str],
) -> _Placed:
    """All instructions with their rows, where constants and `inputs` keep up to `rows`. Others stay
    during a stretch (`keep_constants`), unless its tiles do not fit then. What lives across
    stretches gets the last free rows if it divides the others too much otherwise."""
    kept = keep_between_launches(parts, constants, rows, inputs)
    loaded: set[tuple[int, ...]] = set()
    compact = False
    while True:
        placement = Placement(variant, memory=memory, compact=compact)
        setup = placement.keep(kept.instances, kept.setup)
        found = [
            part if part.layers in loaded else keep_constants(part, constants, variant, memory)
            for part in kept.parts
        ]
        try:
            return _Placed(placement, parts, setup, placement.run(found, segments))
        except Misfit as error:
            if not compact:
                compact = True
                continue
            if error.stretch in kept.parts:
                raise
            loaded.add(error.stretch.layers)


def _finished(
    items: Sequence[PlacedInstruction], num_setup: int, waits: Waits, unread: Collection[int]
) -> list[Instruction]:
    """Add tokens, marks and FINISH. The STOREs `unread` store nothing.

    A unit's instruction has a mark if the next one of that unit is of another layer. The first
    `num_setup` instructions, those of the setup, have none.
    """
    marks: list[bool] = []
    following: dict[Unit, int] = {}
    for item in reversed(items[num_setup:]):
        marks.append(following.get(item.unit) != item.layer)
        following[item.unit] = item.layer
    result = []
    marks += [False] * num_setup
    masks = zip(items, waits.masks(), reversed(marks), strict=True)
    for number, ((instruction, layer, _, _, _), (pop, push), marked) in enumerate(masks):
        if number in unread:
            instruction = instruction.replace(blocks=0)
        result.append(
            instruction.replace(pop=pop, push=push, mark=marked, tag=layer if marked else 0)
        )
    return [*result, Instruction.of(Opcode.FINISH)]
