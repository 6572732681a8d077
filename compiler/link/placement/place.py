"""Turns segments into one stream of instructions with scratchpad rows and micro-ops assigned."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.segment import (
    Instance,
    Runs,
    Segment,
    SegmentInstruction,
    UopSequence,
)
from daedal.compiler.cost.instructions import InstructionCost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.link.on_chip.row_relations import RowRelations
from daedal.compiler.link.ordering.interleave import Stretch
from daedal.compiler.link.placement.micro_ops import MicroOpMemory, UopLoad, uop_memory
from daedal.compiler.link.placement.placed import PlacedInstruction, PlacedRows
from daedal.compiler.link.placement.rows import DeclaredRows, RowAllocator
from daedal.isa.instruction import Instruction
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import TABLE_ROWS, Memory, scratchpads
from daedal.isa.table import LoadMemory, Opcode, Unit
from daedal.isa.variant import Variant

__all__ = ["Misfit", "Placement", "table_name"]

_UOP_UNITS = (Unit.GEMM, Unit.ALU)
_PLACED = (Memory.INP, Memory.WGT, Memory.ACC, Memory.OUT, Memory.PAR, Memory.TAB)

_ROWS_COUNTED = {"table": TABLE_ROWS}
"""Rows that one of a field counts, where there are several. Tables are all of the same size, so
that each begins at a multiple of it."""


class Misfit(ScheduleError):
    """A stretch that does not fit the scratchpads or the micro-op memories."""

    def __init__(self, message: str, stretch: Stretch) -> None:
        super().__init__(message)
        self.stretch = stretch


class Placement:
    """Places the segments of one program, in order.

    After `run`, `micro_ops` holds the tables and `allocators` the high-water marks. Micro-op loads
    have offsets into their unit's table, which `memory_plan` must place as the constant
    `table_name(unit)`. Without `renaming`, buffers get the places that schedules request. With
    `compact`, instances that live across stretches get the last rows that are free.
    """

    def __init__(
        self,
        variant: Variant,
        renaming: bool = True,
        memory: MemoryModel = DDR,
        *,
        compact: bool = False,
    ) -> None:
        self._variant = variant
        self._compact = compact
        self._cost = InstructionCost(variant, memory)
        self._pads = scratchpads(variant)
        self.micro_ops = {unit: MicroOpMemory(variant, unit) for unit in _UOP_UNITS}
        allocator = RowAllocator if renaming else DeclaredRows
        self.allocators = {
            memory: allocator(self._pads[memory], halves=memory is Memory.ACC)
            for memory in _PLACED
            if memory in self._pads
        }
        self._lasting: dict[Instance, int] = {}
        self._kept: dict[Instance, int] = {}

    def keep(
        self, instances: Iterable[Instance], loads: Sequence[tuple[int, SegmentInstruction]]
    ) -> list[PlacedInstruction]:
        """Give `instances` rows that they keep, and place the `loads` that fill them."""
        for instance in instances:
            self._kept[instance] = self.allocators[instance.memory].keep(instance)
        self._lasting.update(self._kept)
        return [self._relocate(item, layer, self._kept) for layer, item in loads]

    def run(self, parts: Sequence[Stretch], segments: Sequence[Segment]) -> list[PlacedInstruction]:
        """All instructions with their rows; memory offsets are still relative to tensors.

        Raises Misfit for the first stretch that does not fit."""
        result: list[PlacedInstruction] = []
        ends = _last_parts(parts)
        for number, part in enumerate(parts):
            name = " and ".join(segments[layer].name for layer in part.layers)
            lasting = {instance for instance, end in ends.items() if end > number}
            lasting.update(self._kept)
            try:
                result += self._stretch(part, name, lasting)
            except ScheduleError as error:
                raise Misfit(str(error), part) from error
            for allocator in self.allocators.values():
                allocator.end_layer()
        return result

    def _stretch(
        self, part: Stretch, name: str, lasting: Collection[Instance]
    ) -> Iterator[PlacedInstruction]:
        """A stretch; instances that are `lasting` stay."""
        items = [item for _, item in part.items]
        together = {unit: self._sequences(items, unit) for unit in _UOP_UNITS}
        for unit, sequences in together.items():
            for load in self.micro_ops[unit].bring_in(sequences, name):
                yield self._uop_load(unit, load, part.layers[0])
        rows = self._rows_of(part, name, lasting)
        for layer, item in part.items:
            if item.uops is not None:
                for load in self.micro_ops[item.unit].bring_one(item.uops):
                    yield self._uop_load(item.unit, load, layer)
            yield self._relocate(item, layer, rows)

    def _rows_of(
        self, part: Stretch, name: str, lasting: Collection[Instance]
    ) -> dict[Instance, int]:
        """The first row of every instance of a stretch.

        The search for free rows goes on where the last stretch ended, so that the two overlap. If
        the tiles do not fit like that, it begins at the first row, as it does for a layer alone.
        If they do not fit then either, parameters get the first rows that are free.
        """
        try:
            return self._assign(part, name, lasting)
        except ScheduleError:
            self._restart()
        try:
            return self._assign(part, name, lasting)
        except ScheduleError:
            self._restart()
        self.allocators[Memory.PAR].in_turns = True
        try:
            return self._assign(part, name, lasting)
        finally:
            self.allocators[Memory.PAR].in_turns = False

    def _restart(self) -> None:
        for allocator in self.allocators.values():
            allocator.restart(self._lasting)

    def _assign(
        self, part: Stretch, name: str, lasting: Collection[Instance]
    ) -> dict[Instance, int]:
        """Give rows to every instance before its first use, and free them after its last."""
        items = [item for _, item in part.items]
        self.allocators[Memory.ACC].in_turns = self._is_bound_by_alu(items)
        last_use = {
            access.instance: number for number, item in enumerate(items) for access in item.rows
        }
        dying: dict[int, list[Instance]] = {}
        for instance, number in last_use.items():
            if instance in lasting:
                continue
            dying.setdefault(number, []).append(instance)
        relations = RowRelations(items, self._variant)
        rows, live = dict(self._lasting), dict(self._lasting)
        for number, (layer, item) in enumerate(part.items):
            for access in item.rows:
                if access.instance not in rows:
                    place = part.layers.index(layer)
                    placed = self._allocate(
                        access.instance,
                        relations,
                        live,
                        name,
                        interleaved=place > 0 and not part.halves,
                        half=part.halves.get(access.instance),
                        lasting=access.instance in lasting,
                    )
                    rows.update(placed)
                    live.update(placed)
            for instance in dying.get(number, ()):
                self.allocators[instance.memory].free(instance)
                del live[instance]
        self._lasting = live
        return rows

    def _is_bound_by_alu(self, items: Sequence[SegmentInstruction]) -> bool:
        """Whether the ALU is busier than GEMM, which has something to do, and than the bus."""
        busy = self._cost.by_unit(items)
        products = busy[Unit.GEMM.name]
        return 0 < products < busy[Unit.ALU.name] and busy["bus"] < busy[Unit.ALU.name]

    def _allocate(
        self,
        instance: Instance,
        relations: RowRelations,
        live: Mapping[Instance, int],
        name: str,
        *,
        interleaved: bool,
        half: int | None,
        lasting: bool,
    ) -> dict[Instance, int]:
        """Rows for an instance, and for the one that must have the same rows."""
        result = relations.results.get(instance)
        twin = None if result is None else (self.allocators[result.memory], result)
        row = self.allocators[instance.memory].place(
            instance,
            name,
            odd=relations.odd(instance, live),
            twin=twin,
            interleaved=interleaved,
            half=half,
            lasting=lasting and self._compact,
        )
        return {instance: row} if result is None else {instance: row, result: row}

    def _sequences(self, items: Sequence[SegmentInstruction], unit: Unit) -> list[UopSequence]:
        return [item.uops for item in items if item.uops is not None and item.unit is unit]

    def _relocate(
        self, item: SegmentInstruction, layer: int, placed: Mapping[Instance, int]
    ) -> PlacedInstruction:
        template, accesses, tensor, uops = item
        values = dict(template.values)
        rows = []
        moved = set()
        for instance, field, runs, reads, writes, scale in accesses:
            first = placed[instance]
            if field not in moved:
                moved.add(field)
                row = values.get(field, 0) + scale * first // _ROWS_COUNTED.get(field, 1)
                # As in `Instruction.of`, fields of value 0 are left out.
                if row:
                    values[field] = row
            rows.append(PlacedRows(instance.memory, first, runs, reads, writes))
        if uops is not None:
            unit = template.unit
            memory = self.micro_ops[unit]
            place = memory.row_of(uops)
            assert place is not None, "a sequence is resident when it is used"
            begin = place * memory.uops_per_row
            if begin:
                values["uop_begin"] = begin
            values["uop_end"] = begin + len(uops)
            runs = _first_rows(memory.rows(uops))
            rows.append(PlacedRows(uop_memory(unit), place, runs, reads=True, writes=False))
        instruction = Instruction(template.opcode, values)
        return PlacedInstruction(instruction, layer, tuple(rows), tensor)

    def _uop_load(self, unit: Unit, load: UopLoad, layer: int) -> PlacedInstruction:
        beats_per_row = self.micro_ops[unit].row_bytes // self._variant.bus_bytes
        target = LoadMemory.UOP_GEMM if unit is Unit.GEMM else LoadMemory.UOP_ALU
        instruction = Instruction.of(
            Opcode.LOAD,
            memory=target,
            row=load.row,
            offset_beats=load.table_row * beats_per_row,
            blocks=1,
            rows=1,
            cols=load.count,
        )
        runs = _first_rows(load.count)
        rows = PlacedRows(target.memory, load.row, runs, reads=False, writes=True)
        return PlacedInstruction(instruction, layer, (rows,), table_name(unit))


def _last_parts(parts: Sequence[Stretch]) -> dict[Instance, int]:
    """The last part in which each instance is used that lives across parts."""
    return {
        access.instance: number
        for number, part in enumerate(parts)
        for _, item in part.items
        for access in item.rows
        if access.instance in part.kept
    }


@cache
def _first_rows(count: int) -> Runs:
    """The first `count` rows, as one object."""
    return ((0, count),)


def table_name(unit: Unit) -> str:
    """Name of the constant that holds a unit's micro-op table."""
    return f"{uop_memory(unit).value} table"
