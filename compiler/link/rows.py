"""Scratchpad rows for instances.

`RowAllocator` renames: consecutive tiles land in different rows, so the LOAD of the next tile need
not wait for the GEMM of this one. That gives double buffering wherever two tiles fit, without
asking for it. `DeclaredRows` gives a buffer the places that its schedule asks for, and no more.
"""

from daedal.compiler.codegen.segment import Instance
from daedal.isa.errors import ScheduleError
from daedal.isa.scratchpad import Memory, Scratchpad

__all__ = ["DeclaredRows", "RowAllocator"]


class RowAllocator:
    """Rows of one scratchpad.

    With `halves`, consecutive instances of a buffer alternate between the two halves where they
    fit: the top row bit of the accumulators selects the bank pair, and the ALU then works on all
    buffers of one tile in one pair while GEMM fills the other.
    """

    def __init__(self, scratchpad: Scratchpad, *, halves: bool = False) -> None:
        self._memory = scratchpad.memory
        self._row_bytes = scratchpad.row_bytes
        self._depth = scratchpad.depth_rows
        count = 2 if halves else 1
        size = self._depth // count
        self._zones = [(zone * size, (zone + 1) * size) for zone in range(count)]
        self._next = [begin for begin, _ in self._zones]
        self._turns: dict[str, int] = {}
        self._live: dict[Instance, int] = {}
        self.high_water_rows = 0

    @property
    def memory(self) -> Memory:
        """The scratchpad."""
        return self._memory

    def place(self, instance: Instance, where: str) -> int:
        """First row of `instance`, which now is live.

        Raises
        ------
        ScheduleError
            There is no room; `where` names the layer.
        """
        row = self._find(instance)
        if row is None:
            used = sum(other.rows for other in self._live)
            raise ScheduleError(
                f"the tiles of a layer must fit scratchpad {self._memory.value!r}: buffer "
                f"{instance.name!r} of {where} needs {instance.rows * self._row_bytes} bytes, and "
                f"{(self._depth - used) * self._row_bytes} of {self._depth * self._row_bytes} are "
                "free (perhaps not in one piece); use smaller tiles"
            )
        self._live[instance] = row
        in_use = sum(other.rows for other in self._live)
        self.high_water_rows = max(self.high_water_rows, in_use)
        return row

    def free(self, instance: Instance) -> None:
        """The rows of `instance` may be used again."""
        del self._live[instance]

    def end_layer(self) -> None:
        """The instances of one layer are all used."""

    def _find(self, instance: Instance) -> int | None:
        turn = self._turns.get(instance.name, 0)
        for step in range(len(self._zones)):
            zone = (turn + step) % len(self._zones)
            begin, end = self._zones[zone]
            for low in (self._next[zone], begin):
                row = self._gap(low, end, instance.rows)
                if row is not None:
                    last = row + instance.rows
                    self._next[zone] = last if last < end else begin
                    self._turns[instance.name] = zone + 1
                    return row
        # Larger than a half, or the halves are fragmented: anywhere.
        return self._gap(0, self._depth, instance.rows)

    def _gap(self, low: int, end: int, rows: int) -> int | None:
        """The lowest row from `low` on where `rows` rows are free below `end`."""
        for begin, stop in sorted((row, row + other.rows) for other, row in self._live.items()):
            if stop <= low:
                continue
            if begin - low >= rows:
                break
            low = stop
        return low if low + rows <= end else None


class DeclaredRows(RowAllocator):
    """Rows as a compiler without renaming gives them: to see what overlap is worth.

    A buffer of a virtual thread has one place, or as many as `double_buffer` asks for, in turn. The
    places of a buffer stay where they are until the layer ends.
    """

    def __init__(self, scratchpad: Scratchpad, *, halves: bool = False) -> None:
        super().__init__(scratchpad, halves=halves)
        self._places: dict[tuple[str, tuple[int, ...]], list[tuple[Instance, int]]] = {}

    def place(self, instance: Instance, where: str) -> int:
        """The next of the buffer's places."""
        places = self._places.setdefault((instance.name, instance.thread), [])
        if len(places) < instance.copies:
            row = super().place(instance, where)
            places.append((instance, row))
            return row
        # What lies there is dead by now: instances of one thread follow each other.
        first, row = places.pop(0)
        places.append((first, row))
        if first.rows < instance.rows:
            raise ScheduleError(
                f"a buffer without renaming needs its largest tile first: {instance.name!r} of "
                f"{where} grows from {first.rows} to {instance.rows} rows; use tiles that divide"
            )
        return row

    def free(self, instance: Instance) -> None:
        """Nothing: places are kept."""

    def end_layer(self) -> None:
        """Give all places back."""
        for places in self._places.values():
            for instance, _ in places:
                super().free(instance)
        self._places.clear()
