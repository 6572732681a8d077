"""Scratchpad rows for instances.

`RowAllocator` renames: consecutive tiles get different rows, so the LOAD of the next tile need not
wait for the GEMM of this one. That gives double buffering wherever two tiles fit, without a request
in the schedule. `DeclaredRows` gives a buffer only the places that its schedule requests.
"""

from collections.abc import Mapping

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.segment import Instance
from daedal.isa.scratchpad import Memory, Scratchpad

__all__ = ["DeclaredRows", "RowAllocator"]


class RowAllocator:
    """Rows of one scratchpad.

    With `halves`, consecutive instances of a buffer alternate between the two halves if they fit.
    The top row bit of the accumulators selects the bank pair, so the ALU works on all buffers of
    one tile in one pair while GEMM fills the other.

    Attributes
    ----------
    high_water_rows : the most rows in use at once.
    in_turns : whether an instance takes the first free rows, not those that have been free longest.
        Then a buffer takes turns between two places, and GEMM is never more than a tile ahead of
        the ALU, whose half it would be in then.
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
        self._latest = self._start = 0
        self._live: dict[Instance, int] = {}
        self.high_water_rows = self._most_before = 0
        self.in_turns = False

    @property
    def memory(self) -> Memory:
        """The scratchpad."""
        return self._memory

    def place(
        self,
        instance: Instance,
        where: str,
        *,
        odd: bool | None = None,
        twin: "tuple[RowAllocator, Instance] | None" = None,
        interleaved: bool = False,
        half: int | None = None,
        lasting: bool = False,
    ) -> int:
        """Allocate `instance`, and return its first row.

        Parameters
        ----------
        odd : whether the first row should be odd or even; None if either will do.
        twin : an instance of another scratchpad that gets the same rows there.
        interleaved : whether it belongs to a layer without products that is interleaved with
            another. Then it gets the half that the other layer used last, which GEMM leaves next.
        half : the half that it gets if it fits there, even if not at an `odd` row as it should;
            None to take turns.
        lasting : whether it lives across stretches, and gets the last rows that are free, so that
            the others are in one piece.

        Raises
        ------
        ScheduleError
            It does not fit; `where` names the layer.
        """
        taken = self._taken()
        depth = self._depth
        if twin is not None:
            taken = sorted(taken + twin[0]._taken())
            depth = min(depth, twin[0]._depth)
        if interleaved:
            self._turns[instance.name] = self._latest
        if half is not None:
            self._turns[instance.name] = half % len(self._zones)
        row = _last_gap(taken, depth, instance.rows, odd) if lasting else None
        if row is None and half is not None and odd is not None:
            row = self._within(instance, taken, depth, odd)
        if row is None:
            row = self._find(instance, taken, depth, odd)
        if row is None and odd is not None:
            row = self._find(instance, taken, depth, None)
        if not interleaved:
            self._latest = (self._turns.get(instance.name, self._start) - 1) % len(self._zones)
        if row is None:
            used = sum(other.rows for other in self._live)
            raise ScheduleError(
                f"the tiles of a layer must fit scratchpad {self._memory.value!r}: buffer "
                f"{instance.name!r} of {where} needs {instance.rows * self._row_bytes} bytes, and "
                f"{(self._depth - used) * self._row_bytes} of {self._depth * self._row_bytes} are "
                "free (perhaps not in one piece); use smaller tiles"
            )
        self._keep(instance, row)
        if twin is not None:
            twin[0]._keep(twin[1], row)
        return row

    def keep(self, instance: Instance) -> int:
        """Allocate `instance` from the top, for good, and return its first row."""
        row = min((row for row in self._live.values()), default=self._depth) - instance.rows
        assert row >= 0, f"{instance} fits"
        self._keep(instance, row)
        self._most_before = self.high_water_rows
        return row

    def free(self, instance: Instance) -> None:
        """The rows of `instance` may be used again."""
        del self._live[instance]

    def end_layer(self) -> None:
        """Called when all instances of a layer are dead. All buffers of the next layer begin in the
        half after that of its last tile, so that those of one tile are in one half."""
        self._start = (self._latest + 1) % len(self._zones)
        self._turns.clear()
        self._most_before = self.high_water_rows

    def restart(self, lasting: Mapping[Instance, int]) -> None:
        """Forget the layer that was begun, and search for free rows from the first one on. Only
        instances of layers before, `lasting` with their rows, are left."""
        self.high_water_rows = self._most_before
        self._next = [begin for begin, _ in self._zones]
        self._turns.clear()
        self._latest = 0
        self._live = {x: row for x, row in lasting.items() if x.memory is self._memory}

    def _keep(self, instance: Instance, row: int) -> None:
        self._live[instance] = row
        in_use = sum(other.rows for other in self._live)
        self.high_water_rows = max(self.high_water_rows, in_use)

    def _taken(self) -> list[tuple[int, int]]:
        """The rows in use: where each instance begins and ends, in order."""
        return sorted((row, row + other.rows) for other, row in self._live.items())

    def _find(
        self, instance: Instance, taken: list[tuple[int, int]], depth: int, odd: bool | None
    ) -> int | None:
        turn = self._turns.get(instance.name, self._start)
        for step in range(len(self._zones)):
            row = self._in_zone((turn + step) % len(self._zones), instance, taken, depth, odd)
            if row is not None:
                return row
        # Larger than a half, or the halves are fragmented: place it anywhere.
        return _gap(taken, 0, depth, instance.rows, odd)

    def _within(
        self, instance: Instance, taken: list[tuple[int, int]], depth: int, odd: bool
    ) -> int | None:
        """A row in the half whose turn it is, `odd` if possible; None if there is none."""
        zone = self._turns[instance.name] % len(self._zones)
        row = self._in_zone(zone, instance, taken, depth, odd)
        return self._in_zone(zone, instance, taken, depth, None) if row is None else row

    def _in_zone(
        self,
        zone: int,
        instance: Instance,
        taken: list[tuple[int, int]],
        depth: int,
        odd: bool | None,
    ) -> int | None:
        """A row in a zone, whose next instance is behind this one; None if there is none."""
        begin, end = self._zones[zone]
        for low in (begin,) if self.in_turns else (self._next[zone], begin):
            row = _gap(taken, low, min(end, depth), instance.rows, odd)
            if row is not None:
                last = row + instance.rows
                self._next[zone] = last if last < end else begin
                self._turns[instance.name] = zone + 1
                return row
        return None


def _gap(
    taken: list[tuple[int, int]], low: int, end: int, rows: int, odd: bool | None
) -> int | None:
    """The first of `rows` rows between `low` and `end`, as low as possible, none of them taken."""

    def start(row: int) -> int:
        return row if odd is None or row % 2 == odd else row + 1

    low = start(low)
    for begin, stop in taken:
        if stop <= low:
            continue
        if begin - low >= rows:
            break
        low = start(stop)
    return low if low + rows <= end else None


def _last_gap(taken: list[tuple[int, int]], end: int, rows: int, odd: bool | None) -> int | None:
    """The first of `rows` rows before `end`, as high as possible, none of them taken."""
    for begin, stop in [*reversed(taken), (-1, 0)]:
        row = end - rows
        row -= odd is not None and row % 2 != odd
        if row >= max(stop, 0):
            return row
        end = min(end, begin)
    return None


class DeclaredRows(RowAllocator):
    """Rows as a compiler without renaming would assign them, to measure what overlap gains.

    A buffer of a virtual thread has one place, or rotates through as many as `double_buffer`
    requests. Its places are fixed until the layer ends.
    """

    def __init__(self, scratchpad: Scratchpad, *, halves: bool = False) -> None:
        super().__init__(scratchpad, halves=halves)
        self._places: dict[tuple[str, tuple[int, ...]], list[tuple[Instance, int]]] = {}

    def place(
        self,
        instance: Instance,
        where: str,
        *,
        odd: bool | None = None,
        twin: tuple[RowAllocator, Instance] | None = None,
        interleaved: bool = False,
        half: int | None = None,
        lasting: bool = False,
    ) -> int:
        """The first row of the buffer's next place; a twin's places are those of `instance`."""
        places = self._places.setdefault((instance.name, instance.thread), [])
        if len(places) < instance.copies:
            row = super().place(instance, where, odd=odd, twin=twin, interleaved=interleaved)
            places.append((instance, row))
            return row
        # Its previous instance is dead by now: instances of one thread do not overlap.
        first, row = places.pop(0)
        places.append((first, row))
        if first.rows < instance.rows:
            raise ScheduleError(
                f"a buffer without renaming needs its largest tile first: {instance.name!r} of "
                f"{where} grows from {first.rows} to {instance.rows} rows; use tiles that divide"
            )
        return row

    def free(self, instance: Instance) -> None:
        """Do nothing: places are kept."""

    def end_layer(self) -> None:
        """Free all places."""
        super().end_layer()
        self._live.clear()
        self._places.clear()

    def restart(self, lasting: Mapping[Instance, int]) -> None:
        """Free all places, too."""
        super().restart(lasting)
        self._places.clear()
