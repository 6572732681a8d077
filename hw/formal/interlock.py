"""Claims about the ALU's interlock: no step reads a row while a result for it is in flight."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from daedal.hw.alu.interlock import Interlock
from daedal.hw.formal.claims import Claims, Inside

__all__ = ["RowInterlock"]

_FREE_AFTER = 3
"""Cycles from the write of a row to the first start of a step that reads it."""

_STAGES = ("arrived", "parked_step", "issued")
"""Registers of the steps in `Interlock`."""

_HEAD = "$signal"
"""Name that Amaranth gives to the first of two signals created in one statement."""


class RowInterlock(Claims):
    """For any steps, and groups leaving at any time, a row in flight is not read.

    The environment models the ALU: a step goes from `before` to the issue point or parks; a group
    of the step there enters only if `stops` was 0 in the previous cycle; a step leaves the issue
    point with its last group; groups leave in order, each at any time after it entered.

    One arbitrary row is chosen for a whole run, and one arbitrary group that writes it, so the
    claims hold for all. From the cycle after the group's start to the second after its write, no
    later step that reads the row may start. A step does not wait for its own groups: it reads its
    rows before they enter. The claims are inductive in one cycle.

    Parameters
    ----------
    row_bits, depth : of the interlock. Two bits and three places reach every case in a few cycles;
        the machine's ring has about 20 places for rows of 8 to 11 bits.
    interlock : the class; tests pass a broken one.
    registers : include the claims on registers that make the others inductive.
    """

    def __init__(
        self,
        *,
        row_bits: int = 2,
        depth: int = 3,
        interlock: Any = Interlock,
        registers: bool = True,
    ) -> None:
        super().__init__()
        self._row_bits = row_bits
        self._depth = depth
        self._interlock = interlock
        self._with_registers = registers

    def state(self, m: Module) -> None:
        block = self._interlock(row_bits=self._row_bits, depth=self._depth)
        inside = self.place(m, "block", block)
        chosen = self.constant(m, self._row_bits, "row")
        reads, writes, is_step = self._steps(m, block, chosen)
        stopped = Signal()
        m.d.sync += stopped.eq(block.stops)
        final = self.free(1, "final_group")
        m.d.comb += [
            block.enter.eq(is_step & ~stopped & self.free(1, "may_enter")),
            block.next.eq(~is_step | (block.enter & final)),
            block.leave.eq(self.free(1, "leave")),
        ]
        held = Signal(range(self._depth + 1))
        m.d.sync += held.eq(held + block.enter - block.leave)
        self.assume(m, "only_what_is_inside_leaves", ~block.leave | (held != 0))
        self.require(m, "holds_no_more_than_its_places", held <= self._depth)

        in_flight, earlier = self._tracked_group(m, block, inside, writes, held)
        if self._with_registers:
            occupied = self._ring(m, inside, held, stopped)
            self._registers(m, block, inside, chosen, occupied)
            self._tracked_registers(m, block, inside, chosen, earlier, held)
        waits = is_step & reads & in_flight & earlier
        self.require(m, "a_row_in_flight_is_not_read", ~waits | stopped)
        idle, was_idle = (held == 0) & ~block.enter, Signal()
        m.d.sync += was_idle.eq(idle)
        self.require(m, "nobody_waits_for_nothing", ~(was_idle & idle) | ~block.stops)

        was_stopped = Signal()
        with m.If(waits & stopped):
            m.d.sync += was_stopped.eq(1)
        with m.Elif(block.next):
            m.d.sync += was_stopped.eq(0)
        self.reach(m, "a_dependent_step_is_stopped", waits & stopped)
        self.reach(m, "a_stopped_step_goes", was_stopped & block.enter)
        self.reach(m, "the_ring_is_full", held == self._depth)

    def _steps(self, m: Module, block: Any, chosen: Value) -> tuple[Value, Value, Value]:
        """Model of the steps as the ALU moves them.

        Return, of the step at the issue point, (it reads the chosen row, it writes it, it exists).
        """
        comes = self.free(1, "comes")
        for name in ("src", "dst", "reads_src", "reads_dst"):
            port = getattr(block, name)
            m.d.comb += port.eq(self.free(len(port), name))
        m.d.comb += block.writes.eq(comes & self.free(1, "writes"))
        reads = (block.reads_src & (block.src == chosen)) | (
            block.reads_dst & (block.dst == chosen)
        )
        # For each stage: it holds a step, the step reads the row, the step writes the row.
        arriving = (comes, comes & reads, block.writes & (block.dst == chosen))
        before, parked, issued = (
            tuple(Signal(name=f"{stage}_{name}") for name in ("some", "reads", "writes"))
            for stage in ("before", "parked", "issued")
        )
        is_parked = block.parked
        m.d.sync += is_parked.eq(~block.next & (is_parked | before[0]))
        for new, old, kept, now in zip(arriving, before, parked, issued, strict=True):
            with m.If(~is_parked):
                m.d.sync += [old.eq(new), kept.eq(old)]
            with m.If(block.next):
                m.d.sync += now.eq(Mux(is_parked, kept, old))
        self._stages = dict(zip(_STAGES, (before, parked, issued), strict=True))
        return issued[1], issued[2], issued[0]

    def _tracked_group(
        self, m: Module, block: Any, inside: Inside, writes: Value, held: Value
    ) -> tuple[Value, Value]:
        """Track one group that writes the chosen row.

        Return (it is in flight, the step at the issue point is a later one).
        """
        picked, earlier = Signal(), Signal()
        ahead = Signal(range(self._depth + 1))  # groups that leave until it has left
        late = Signal(range(_FREE_AFTER))
        place = Signal(self._depth)
        self._tracked = (picked, ahead, late, place)
        starts = block.enter & writes & ~picked & self.free(1, "pick")
        leaves = block.leave & (ahead == 1)
        with m.If(starts):
            m.d.sync += [
                picked.eq(1),
                ahead.eq(held + 1 - block.leave),
                earlier.eq(block.next),
                place.eq(inside[_HEAD]),
            ]
        with m.Elif(picked):
            with m.If(block.next):
                m.d.sync += earlier.eq(1)
            with m.If(ahead != 0):
                m.d.sync += ahead.eq(ahead - block.leave)
            with m.If(leaves):
                m.d.sync += late.eq(_FREE_AFTER - 1)
            with m.Elif((ahead == 0) & (late != 0)):
                m.d.sync += late.eq(late - 1)
        in_flight = Signal()
        m.d.comb += in_flight.eq(picked & ((ahead != 0) | (late != 0)))
        self.reach(m, "a_group_is_written_and_free", picked & ~in_flight)
        return in_flight, earlier

    # The claims below are on registers; they make the claims above inductive.

    def _ring(self, m: Module, inside: Inside, held: Value, stopped: Value) -> Value:
        """Head, tail and count match `held` groups; return the places that they occupy."""
        head, tail, leaves = inside[_HEAD], inside["tail"], inside["leaves"]
        turned = [tail.rotate_left(number) for number in range(self._depth)]
        occupied = Signal(self._depth)
        m.d.comb += occupied.eq(
            Cat(
                Cat((held > number) & turned[number][place] for number in range(self._depth)).any()
                for place in range(self._depth)
            )
        )
        one_hot = Cat(tail == 1 << place for place in range(self._depth)).any()
        reached = Cat(
            (held % self._depth == number) & (head == turned[number])
            for number in range(self._depth)
        ).any()
        last_left = Mux(leaves, tail.rotate_right(1), 0)
        self.require(m, "tail_is_one_place", one_hot)
        self.require(m, "head_is_behind_what_is_held", reached)
        self.require(m, "count_is_a_cycle_late", inside["count"] == held + leaves)
        self.require(m, "count_is_the_depth_at_most", inside["count"] <= self._depth)
        self.require(m, "leaving_is_the_last_place", inside["leaving"] == last_left)
        self.require(m, "a_full_ring_stops", (inside["count"] != self._depth) | stopped)
        return occupied

    def _step(self, inside: Inside, stage: str) -> Any:
        """A register of `Interlock`."""
        layout = data.StructLayout(
            {"row": self._row_bits, "writes": 1, "waits": self._depth, "first": 1, "second": 1}
        )
        return data.View(layout, inside[stage])

    def _registers(
        self, m: Module, block: Any, inside: Inside, chosen: Value, occupied: Value
    ) -> None:
        """Steps wait only for groups in the ring, and their flags match the steps ahead."""
        known = occupied | inside["leaving"]
        steps = Cat(Cat(self._stages[stage], self._step(inside, stage).writes) for stage in _STAGES)
        nothing = ~Cat(steps, inside["busy"], self._tracked[0]).any()
        self.require(m, "there_is_nothing_at_first", self.runs(m) | nothing)
        self.require(m, "busy_is_inside", (inside["busy"] & ~known) == 0)
        arrived, parked, issued = (self._step(inside, stage) for stage in _STAGES)
        for stage in _STAGES:
            step, (_, _, writes) = self._step(inside, stage), self._stages[stage]
            self.require(m, f"{stage}_waits_for_what_is_inside", (step.waits & ~known) == 0)
            self.require(m, f"{stage}_writes", writes == (step.writes & (step.row == chosen)))
        before, waiting, at_issue = (self._stages[stage] for stage in _STAGES)
        is_parked = block.parked
        self.require(m, "what_is_parked_is_a_step", ~is_parked | waiting[0])
        self.require(m, "only_a_step_writes", ~issued.writes | at_issue[0])
        self.require(m, "only_a_parked_step_writes", ~(is_parked & parked.writes) | waiting[0])
        self.require(m, "only_a_step_arrives_to_write", ~arrived.writes | before[0])
        # The step whose row a step reads: the one at the issue point, the parked one.
        for name, step, reads, there in (
            ("arrived", arrived, before[1], True),
            ("parked", parked, waiting[1], is_parked),
        ):
            self.require(m, f"{name}_first", ~(there & reads & at_issue[2]) | step.first)
            self.require(m, f"{name}_first_of_a_writer", ~(there & step.first) | issued.writes)
        second = ~(is_parked & before[1] & waiting[2]) | arrived.second
        self.require(m, "arrived_second", second)
        of_a_writer = ~arrived.second | (is_parked & parked.writes)
        self.require(m, "arrived_second_of_a_writer", of_a_writer)

    def _tracked_registers(
        self, m: Module, block: Any, inside: Inside, chosen: Value, earlier: Value, held: Value
    ) -> None:
        """The tracked group's place, and that later steps wait for it."""
        picked, ahead, late, place = self._tracked
        tail, leaving = inside["tail"], inside["leaving"]
        at_place = Cat(
            (ahead == number + 1) & (place == tail.rotate_left(number))
            for number in range(self._depth)
        ).any()
        left_now = late == _FREE_AFTER - 1
        known = picked & ((ahead != 0) | left_now)
        rows = [
            ~place[number] | (inside["busy"][number] & (inside[f"row{number}"] == chosen))
            for number in range(self._depth)
        ]
        self.require(m, "it_has_a_place", (ahead == 0) | (at_place & (ahead <= held)))
        self.require(m, "it_is_picked", picked | ((ahead == 0) & (late == 0)))
        self.require(m, "it_is_late_for_some_cycles", late < _FREE_AFTER)
        self.require(m, "it_leaves_its_place", ~left_now | ((ahead == 0) & (leaving == place)))
        self.require(m, "its_place_is_busy", ~known | Cat(rows).all())
        later = (1, block.parked, earlier & self._stages["issued"][0])
        for stage, is_later in zip(_STAGES, later, strict=True):
            reads = self._stages[stage][1]
            waits = (self._step(inside, stage).waits & place).any()
            self.require(m, f"{stage}_waits_for_it", ~(known & is_later & reads) | waits)
